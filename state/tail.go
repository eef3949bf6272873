package state

import (
	"github.com/reprise-go/reprise/record"
)

// tail is the history of a run with a journal as far as it is in memory: the
// records that are not yet written, or not yet published. All others are in
// the store. So one more record takes no more memory in the end, and no more
// time the more of them there are.
type tail struct {
	records []record.Record // the last of the run
	n       int             // all records of the run
	written int             // of them, from the first
}

// maxIdle is the room for records that a tail keeps when it is empty.
const maxIdle = 256

// append keeps rec, which has the next Seq.
func (t *tail) append(rec record.Record) {
	t.n++
	t.records = append(t.records, rec)
}

// after are the records with a Seq above seq, which are not forgotten.
func (t *tail) after(seq int) []record.Record { return t.records[len(t.records)-(t.n-seq):] }

// forget drops what is written, and published up to the number.
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
