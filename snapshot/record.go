package snapshot

import (
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// AppendRecord appends r to dst in the form described in docs/format.md, and
// returns the extended slice. It does not encode the run ID, which is stored once for
// all records. It converts r.Err with [record.ErrorOf], unless r.Err is a
// *[record.InterruptedError]. Metadata that cannot be encoded is stored as text. If
// r.Time is outside the years 1678 to 2261, the range of nanoseconds in 64 bits,
// AppendRecord returns an error and dst unchanged.
func AppendRecord(dst []byte, r *record.Record) ([]byte, error) {
	w := codec.NewWriter(dst)
	err := (*encodableRecord)(r).write(w)
	out := w.Finish()
	if err != nil {
		return dst, fmt.Errorf("snapshot: record %d: %w", r.Seq, err)
	}
	return out, nil
}

// DecodeRecord decodes one record that [AppendRecord] has appended. The record shares no memory
// with data and has no run ID. Its Err, if any, is a *[record.InterruptedError] if the call or the
// run was interrupted, and a *[record.Error] otherwise.
//
// If the record has a newer version, the error is ErrFormat. If data is not exactly one record, the
// error is ErrCorrupt, and its message contains the offset.
func DecodeRecord(data []byte) (record.Record, error) {
	d := newRecordDecoder()
	defer d.release()
	return d.decode(data)
}

// DecodeRecords decodes consecutive records that [AppendRecord] has appended, each like
// [DecodeRecord], and yields them. It ends after an error.
func DecodeRecords(data []byte) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		d := newRecordDecoder()
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

// CutRecord splits data after the first record, which it does not decode, and also
// returns that record's number. It returns the same errors as [DecodeRecord].
func CutRecord(data []byte) (encoded []byte, seq uint64, rest []byte, err error) {
	in := codec.NewReader(data)
	defer in.Release()
	if encoded, seq, err = cutRecord(in); err != nil {
		return nil, 0, nil, err
	}
	return encoded, seq, data[in.Offset():], nil
}

// recordError adds ErrCorrupt to an error from decoding a record, unless that error is
// ErrFormat.
func recordError(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// The lengths of the arrays in this version. Later versions only add fields at the
// end, and readers skip fields that they do not know. A record with fewer fields is
// rejected, because a file of many tiny records could otherwise need many times its size in
// memory.
const (
	recordFields = 22
	detailFields = 8 // and 19 to 22 more if any of those is set
	usageFields  = 3
	claimFields  = 5

	inDoubtFields  = 9
	forkFields     = 4
	effectFields   = 10
	replacedFields = 3
	undoneFields   = 2
	madeFields     = 2
)
