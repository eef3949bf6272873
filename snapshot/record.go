package snapshot

import (
	"errors"
	"fmt"
	"iter"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// AppendRecord appends r to dst in the form described in docs/format.md, and
// returns the extended slice. The run ID is not encoded: it is stored once for all
// records. An error that is not a recorded one is converted by [record.ErrorOf],
// and metadata that cannot be encoded is stored as text. If a time is outside the
// years 1678 to 2261, the range of nanoseconds in 64 bits, AppendRecord returns an
// error and dst unchanged.
func AppendRecord(dst []byte, r *record.Record) ([]byte, error) {
	w := codec.NewWriter(dst)
	err := (*encodableRecord)(r).write(w)
	out := w.Finish()
	if err != nil {
		return dst, fmt.Errorf("snapshot: record %d: %w", r.Seq, err)
	}
	return out, nil
}

// DecodeRecord reads what [AppendRecord] appended. The record shares no memory with
// data and has no run ID. Its Err, if any, is a *[record.InterruptedError] if the
// call or the run was interrupted, and a *[record.Error] otherwise.
//
// If the record has a newer version, the error is ErrFormat. If data is anything
// other than one whole record, the error is ErrCorrupt and names the byte.
func DecodeRecord(data []byte) (record.Record, error) {
	d := newRecordDecoder()
	defer d.release()
	return d.decode(data)
}

// DecodeRecords yields consecutive records that [AppendRecord] has appended,
// decoded as by [DecodeRecord]. It ends after an error.
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

// CutRecord splits data after its first record and returns the number of that
// record, without decoding it. It returns the same errors as [DecodeRecord].
func CutRecord(data []byte) (encoded []byte, seq uint64, rest []byte, err error) {
	in := codec.NewReader(data)
	defer in.Release()
	if encoded, seq, err = cutRecord(in); err != nil {
		return nil, 0, nil, err
	}
	return encoded, seq, data[in.Offset():], nil
}

// recordError adds ErrCorrupt or ErrFormat to an error that occurred in a record.
func recordError(err error) error {
	if errors.Is(err, ErrFormat) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// The lengths of the arrays in this version. Later versions only add fields at the
// end, which readers skip. A record with fewer fields is rejected; otherwise a file
// of many tiny records could take many times its size in memory.
const (
	recordFields = 22
	detailFields = 8 // and nineteen more if any of them is set
	usageFields  = 3
	claimFields  = 5

	inDoubtFields  = 9
	forkFields     = 4
	effectFields   = 10
	replacedFields = 3
	undoneFields   = 2
	madeFields     = 2
)
