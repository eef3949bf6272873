package snapshot

import (
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// AppendRecord appends r to dst in the form that docs/format.md describes and
// returns it. The run ID is not part of it: it is kept with the records as a whole.
// An error that was not recorded before is converted by [record.ErrorOf], and
// metadata that cannot be encoded is kept as its text. AppendRecord fails, and
// returns dst unchanged, if a time is outside the years 1678 to 2261, the range of
// 64 bits of nanoseconds.
func AppendRecord(dst []byte, r *record.Record) ([]byte, error) {
	w := codec.NewWriter(dst)
	err := (*writable)(r).write(w)
	out := w.Finish()
	if err != nil {
		return dst, fmt.Errorf("snapshot: record %d: %w", r.Seq, err)
	}
	return out, nil
}

// DecodeRecord reads what [AppendRecord] appended. The record shares nothing
// with data and has no run ID. Its error, if it has one, is a
// *[record.Error], or a *[record.InterruptedError] where the call or the
// run was interrupted.
//
// A record of a newer version is ErrFormat; anything else that is not one
// whole record is ErrCorrupt, and the error says at which byte.
func DecodeRecord(data []byte) (record.Record, error) {
	d := newDecoding()
	defer d.release()
	return d.decode(data)
}

// DecodeRecords yields the records that [AppendRecord] has appended one after
// the other, decoded as [DecodeRecord] does. After an error it yields no more.
func DecodeRecords(data []byte) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		d := newDecoding()
		defer d.release()
		in := codec.NewReader(data)
		defer in.Release()
		for in.Len() > 0 {
			if err := d.read(in); err != nil {
				yield(record.Record{}, recordError(err))
				return
			}
			if !yield(d.record, nil) {
				return
			}
		}
	}
}

// CutRecord splits data after its first record and returns the number of that
// record, without decoding it. Its errors are those of [DecodeRecord].
func CutRecord(data []byte) (encoded []byte, seq uint64, rest []byte, err error) {
	in := codec.NewReader(data)
	defer in.Release()
	if encoded, seq, err = cutRecord(in); err != nil {
		return nil, 0, nil, err
	}
	return encoded, seq, data[in.Offset():], nil
}

// recordError is the kind of error that err, met in a record, is.
func recordError(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// The lengths of the arrays of this version. Fields are only ever added at
// the end: readers skip what they do not know. A record has no fewer, so that
// many tiny ones cannot make a reader's memory many times as large as a file.
const (
	recordFields = 22
	detailFields = 8 // and nineteen more where one of them is set
	usageFields  = 3
	claimFields  = 5

	inDoubtFields  = 7
	forkFields     = 4
	effectFields   = 10
	replacedFields = 3
	undoneFields   = 2
	madeFields     = 2
)
