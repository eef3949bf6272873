package snapshot

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
)

// A Lazy is a run whose records are decoded when they are asked for. To resume
// a run takes the heads of all of them and the whole of a few, and a head takes
// no memory of its own. A Lazy never changes and is for many goroutines.
type Lazy struct {
	Info

	files []encodedFile
	at    []int64       // where each record begins, as if the files were one after the other
	whole []core.Record // instead, of a run that was decoded anyway

	spare atomic.Pointer[lazyReader] // for the next record; nil while it is used
}

// encodedFile is a file with records in it.
type encodedFile struct {
	begin int64 // as if the files were one after the other
	data  []byte
}

// A Head is a record without its error and its detail.
type Head struct {
	core.Record
	InputHash core.Hash // what the detail has of it
}

// NewLazy returns a Lazy with the records of s, which are decoded already.
func NewLazy(s *Snapshot) *Lazy { return &Lazy{Info: s.Info, whole: s.Records} }

// A LazyStore is a [Store] that loads runs without decoding them.
type LazyStore interface {
	// LoadLazy is Load but for that. What Load finds to be damaged is found.
	LoadLazy(ctx context.Context, runID string) (*Lazy, error)
}

// A LazyJournal is a [Journal] that found its run without decoding it.
type LazyJournal interface {
	// RestoredLazy is Restored but for that.
	RestoredLazy() *Lazy
}

// LoadLazy loads a run without decoding it, if the store can.
func LoadLazy(ctx context.Context, store Store, runID string) (*Lazy, error) {
	if s, ok := store.(LazyStore); ok {
		return s.LoadLazy(ctx, runID)
	}
	found, err := store.Load(ctx, runID)
	if err != nil {
		return nil, err
	}
	return NewLazy(found), nil
}

// RestoredLazy returns the run as the journal found it, without decoding it if
// the journal can.
func RestoredLazy(journal Journal) *Lazy {
	if j, ok := journal.(LazyJournal); ok {
		return j.RestoredLazy()
	}
	return NewLazy(journal.Restored())
}

// Len is the number of records.
func (l *Lazy) Len() int { return max(len(l.at), len(l.whole)) }

// Record decodes the record with that number, from 1 to Len. Its error is
// ErrCorrupt where what LoadLazy or Open found whole is so no more.
func (l *Lazy) Record(seq uint64) (core.Record, error) {
	if seq < 1 || seq > uint64(l.Len()) {
		return core.Record{}, fmt.Errorf("snapshot: run %s has no record %d, it has %d", l.RunID, seq, l.Len())
	}
	if l.whole != nil {
		return l.whole[seq-1], nil
	}
	in := l.spare.Swap(nil)
	if in == nil {
		in = l.read(everything)
	}
	if err := in.record(seq); err != nil {
		return core.Record{}, err
	}
	rec := in.decoding.record // before another may read the next there
	l.spare.Store(in)
	return rec, nil
}

// Heads yields the head of each record in order. It is good until the next
// one. After an error, which is that of Record, there is no other.
func (l *Lazy) Heads() iter.Seq2[*Head, error] {
	return func(yield func(*Head, error) bool) {
		in := l.read(headOnly)
		defer in.release()
		var head Head
		for seq := range uint64(l.Len()) {
			if l.whole != nil {
				head = headOf(&l.whole[seq])
			} else if err := in.record(seq + 1); err != nil {
				yield(nil, err)
				return
			} else {
				head = Head{in.decoding.record, in.decoding.inputHash}
			}
			if !yield(&head, nil) {
				return
			}
		}
	}
}

func headOf(r *core.Record) Head {
	head := Head{Record: *r}
	if r.Detail != nil {
		head.InputHash = r.Detail.InputHash
	}
	head.Err, head.Detail = nil, nil
	return head
}

// lazyReader reads records of a Lazy, one after the other.
type lazyReader struct {
	lazy     *Lazy
	decoding *decoding // has the latest
	file     *encodedFile
	in       *codec.Reader // of the file; nil without one
}

func (l *Lazy) read(e extent) *lazyReader {
	r := &lazyReader{lazy: l, decoding: newDecoding(migrations)}
	r.decoding.extent = e
	return r
}

func (r *lazyReader) release() {
	r.decoding.release()
	if r.in != nil {
		r.in.Release()
	}
}

// record reads the record with that number. After an error there is no other.
func (r *lazyReader) record(seq uint64) error {
	at := r.lazy.at[seq-1]
	if r.file == nil || at < r.file.begin || at >= r.file.begin+int64(len(r.file.data)) {
		r.open(at)
	}
	r.in.Rewind(int(at - r.file.begin))
	if err := r.decoding.DecodeMsgpack(r.in.Decoder()); err != nil {
		return fmt.Errorf("snapshot: run %s: record %d: %w", r.lazy.RunID, seq, recordError(err))
	}
	r.decoding.record.RunID = r.lazy.RunID
	return nil
}

// open goes to the file with what is there.
func (r *lazyReader) open(at int64) {
	i := len(r.lazy.files) - 1
	for r.lazy.files[i].begin > at {
		i--
	}
	if r.in != nil {
		r.in.Release()
	}
	r.file = &r.lazy.files[i]
	r.in = codec.NewReader(r.file.data)
}

// Snapshot decodes all records.
func (l *Lazy) Snapshot() (*Snapshot, error) {
	s := &Snapshot{Info: l.Info, Records: l.whole}
	if l.whole != nil || l.Len() == 0 {
		return s, nil
	}
	s.Records = make([]core.Record, 0, l.Len())
	in := l.read(everything)
	defer in.release()
	for seq := range uint64(l.Len()) {
		if err := in.record(seq + 1); err != nil {
			return s, err
		}
		s.Records = append(s.Records, in.decoding.record)
	}
	return s, nil
}
