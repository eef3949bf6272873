package snapshot

import (
	"fmt"
	"iter"
	"slices"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// A Run is a stored run: its Info, and its records, which stay encoded until they are
// read. A Run is immutable and safe for concurrent use. The inputs and outputs of
// decoded records share memory with the run and must not be modified.
type Run struct {
	Info
	encoded [][]byte
}

// NewRun returns a run with the records, which must be numbered from 1 without gaps;
// they may be nil. It sets LastSeq to the number of the last one. A store that has
// encoded records calls NewRun(info, nil) and then [Run.Extend].
func NewRun(info Info, records iter.Seq2[record.Record, error]) (*Run, error) {
	r := &Run{Info: info.Clone()}
	if records != nil {
		for rec, err := range records {
			if err == nil && rec.Seq != r.last()+1 {
				err = errOutOfOrder(info.RunID, rec.Seq, r.last()+1)
			}
			if err != nil {
				return nil, err
			}
			encoded, err := AppendRecord(nil, &rec)
			if err != nil {
				return nil, fmt.Errorf("snapshot: run %s: %w", info.RunID, err)
			}
			r.encoded = append(r.encoded, encoded)
		}
	}
	r.LastSeq = r.last()
	return r, nil
}

func errOutOfOrder(runID string, seq, want uint64) error {
	return fmt.Errorf("snapshot: run %s: got record %d, want record %d", runID, seq, want)
}

// Len returns the number of records.
func (r *Run) Len() int { return len(r.encoded) }

// last returns the number of the last record.
func (r *Run) last() uint64 { return uint64(len(r.encoded)) }

// Record decodes the record with the given number, from 1 to Len.
func (r *Run) Record(seq uint64) (record.Record, error) {
	if seq < 1 || seq > uint64(len(r.encoded)) {
		return record.Record{}, r.errNoRecord(seq)
	}
	d := newRecordDecoder()
	defer d.release()
	d.shares = true
	rec, err := d.decode(r.encoded[seq-1])
	if err != nil {
		return record.Record{}, fmt.Errorf("snapshot: run %s: record %d: %w", r.RunID, seq, err)
	}
	rec.RunID = r.RunID
	return rec, nil
}

// Output returns the encoded output of the record with the given number, or the
// reference if the output is an artifact, without decoding the rest of the record. It
// reports false if the record is not the completion of a call.
func (r *Run) Output(seq uint64) (output []byte, artifact string, completed bool, err error) {
	if seq < 1 || seq > uint64(len(r.encoded)) {
		return nil, "", false, r.errNoRecord(seq)
	}
	output, artifact, completed, err = readOutput(r.encoded[seq-1])
	if err != nil {
		return nil, "", false, fmt.Errorf("snapshot: run %s: record %d: %w", r.RunID, seq, recordError(err))
	}
	return output, artifact, completed, nil
}

func (r *Run) errNoRecord(seq uint64) error {
	return fmt.Errorf("snapshot: run %s has no record %d, it has %d", r.RunID, seq, len(r.encoded))
}

// Records decodes the records in order. It ends after an error.
func (r *Run) Records() iter.Seq2[record.Record, error] { return r.RecordsAfter(0) }

// RecordsAfter decodes the records with numbers above seq, in order.
func (r *Run) RecordsAfter(seq uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		d := newRecordDecoder()
		defer d.release()
		d.shares = true
		for n := seq; n < uint64(len(r.encoded)); n++ {
			rec, err := d.decode(r.encoded[n])
			if err != nil {
				yield(record.Record{}, fmt.Errorf("snapshot: run %s: record %d: %w", r.RunID, n+1, err))
				return
			}
			rec.RunID = r.RunID
			if !yield(rec, nil) {
				return
			}
		}
	}
}

// Scan is like Records but does not allocate for each record: a record and its Detail
// are valid only until the next one is yielded, which is decoded into the same memory.
func (r *Run) Scan() iter.Seq2[*record.Record, error] {
	return func(yield func(*record.Record, error) bool) {
		d := newRecordDecoder()
		defer d.release()
		d.shares, d.detail = true, new(record.Detail)
		for n, encoded := range r.encoded {
			if err := d.decodeOne(encoded); err != nil {
				yield(nil, fmt.Errorf("snapshot: run %s: record %d: %w", r.RunID, n+1, err))
				return
			}
			d.record.RunID = r.RunID
			if !yield(&d.record, nil) {
				return
			}
		}
	}
}

// Encoded returns the record with the given number, from 1 to Len, in the form of
// [AppendRecord]. The caller must not modify it.
func (r *Run) Encoded(seq uint64) []byte { return r.encoded[seq-1] }

// Extend returns the run with more records. Each part has encoded records, one after
// the other; the run keeps the parts, so they must not change. Records that the run
// already has are skipped. Extend only checks the version, the number and the length of
// each record; the rest is checked when a record is decoded.
//
// If there is an error, the returned run has the records before it, and taken is the
// number of parts that were used completely. If a record has a newer version, the error
// is ErrFormat; for anything else that is not the next record, it is ErrCorrupt.
func (r *Run) Extend(parts ...[]byte) (extended *Run, taken int, err error) {
	extended = &Run{Info: r.Info.Clone(), encoded: slices.Grow(slices.Clip(r.encoded), len(parts))}
	for _, part := range parts {
		if err = extended.extend(part); err != nil {
			break
		}
		taken++
	}
	extended.LastSeq = extended.last()
	return extended, taken, err
}

func (r *Run) extend(part []byte) error {
	in := codec.NewReader(part)
	defer in.Release()
	had := len(r.encoded)
	for in.Len() > 0 {
		encoded, seq, err := cutRecord(in)
		if next := r.last() + 1; err == nil && seq > next {
			err = fmt.Errorf("%w: record %d where record %d is expected", ErrCorrupt, seq, next)
		} else if err == nil && seq == next {
			r.encoded = append(r.encoded, encoded)
		}
		if err != nil {
			r.encoded = r.encoded[:had] // use a part completely or not at all
			return err
		}
	}
	return nil
}

// cutRecord returns the next record without decoding it.
func cutRecord(in *codec.Reader) (encoded []byte, seq uint64, err error) {
	begin := in.Offset()
	f := newFieldReader(in)
	n := f.left
	version := f.uint()
	seq = f.uint()
	switch {
	case in.Err() != nil:
		return nil, 0, recordError(f.err())
	case version > FormatVersion:
		return nil, 0, errNewer("the record", version)
	case version < FormatVersion || n < recordFields:
		return nil, 0, fmt.Errorf("%w: byte %d: not a record: an array of %d fields with version %d", ErrCorrupt, begin, n, version)
	}
	f.skip(f.left)
	if in.Err() != nil {
		return nil, 0, recordError(in.Err())
	}
	return in.Since(begin), seq, nil
}

// Snapshot decodes all records.
func (r *Run) Snapshot() (*Snapshot, error) {
	s := &Snapshot{Info: r.Info.Clone()}
	if r.Len() > 0 {
		s.Records = make([]record.Record, 0, r.Len())
	}
	for rec, err := range r.Records() {
		if err != nil {
			return nil, err
		}
		s.Records = append(s.Records, rec)
	}
	return s, nil
}

// Run encodes the records.
func (s *Snapshot) Run() (*Run, error) {
	return NewRun(s.Info, func(yield func(record.Record, error) bool) {
		for i := range s.Records {
			if !yield(s.Records[i], nil) {
				return
			}
		}
	})
}

// Encode returns the document of [Run.Encode].
func (s *Snapshot) Encode() ([]byte, error) {
	run, err := s.Run()
	if err != nil {
		return nil, err
	}
	return run.Encode()
}
