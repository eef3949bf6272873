package state

import (
	"github.com/reprise-go/reprise/record"
)

// tail is the part of the history of a run with a journal that is in memory:
// the records that are not written yet, or not published yet. All others are in
// the store. So the memory, and the time to append a record, do not grow with
// the run.
type tail struct {
	records []record.Record // the last records of the run
	n       int             // the number of all records of the run
	written int             // the number of written records
}

// maxIdle is the capacity that a tail keeps when it is empty.
const maxIdle = 256

// append adds rec, which has the next Seq.
func (t *tail) append(rec record.Record) {
	t.n++
	t.records = append(t.records, rec)
}

// after returns the records with a Seq above seq, which must still be in
// memory.
func (t *tail) after(seq int) []record.Record { return t.records[len(t.records)-(t.n-seq):] }

// forget drops the records that are both written and among the first published
// ones.
func (t *tail) forget(published int) {
	waiting := t.after(min(t.written, published))
	switch {
	case len(waiting) == 0 && cap(t.records) > maxIdle:
		t.records = nil
	case len(waiting) <= len(t.records)/2: // else not yet: each is moved once, on average
		n := copy(t.records, waiting)
		clear(t.records[n:])
		t.records = t.records[:n]
	}
}
