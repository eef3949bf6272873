package snapshot

import (
	"fmt"
	"iter"
	"slices"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// A Run is a stored run: its Info and its records. The records stay encoded until they
// are read. A Run is immutable and safe for concurrent use. The inputs and outputs in
// decoded records share memory with the run and must not be modified.
type Run struct {
	Info
	encoded [][]byte
}

// NewRun returns a run with the given records, which must be numbered from 1 without
// gaps. If records is nil, the run has none. NewRun sets LastSeq to the number of the
// last record. A store whose records are already encoded calls NewRun(info, nil) and then
// [Run.Extend].
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

// Output returns the encoded output in the record with the given number or, if the output
// is an artifact, its reference. It does not decode the rest of the record. If the record
// does not say that a call completed, the third result is false.
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
	return fmt.Errorf("snapshot: run %s has no record %d; it has %d records", r.RunID, seq, len(r.encoded))
}

// Records decodes the records and yields them in order. It ends after an error.
func (r *Run) Records() iter.Seq2[record.Record, error] { return r.RecordsAfter(0) }

// RecordsAfter is like Records, but begins after the record with the number seq.
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

// Scan is like Records but decodes all records into the same memory instead of
// allocating memory for each. A record and its Detail are therefore valid only until the
// next record is yielded.
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

// Encoded returns the record with the given number, from 1 to Len, as encoded by
// [AppendRecord]. The caller must not modify it.
func (r *Run) Encoded(seq uint64) []byte { return r.encoded[seq-1] }

// Extend returns a copy of r with more records. Each part consists of encoded records, one
// after the other. The returned run refers to the parts, so they must not be modified.
// Records that r already has are skipped. Extend checks only the version, the number and
// the length of each record; the rest is checked when the record is decoded.
//
// Extend uses each part completely or not at all, and stops at the first part with an
// error. It then returns the run with the parts before that one; taken is their number. If
// a record has a newer version, the error is ErrFormat. If a part contains anything else
// that is not the next record, the error is ErrCorrupt.
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

// cutRecord reads the next record without decoding it.
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

// Snapshot returns the run with all records decoded.
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

// Run returns the snapshot as a Run, with its records encoded.
func (s *Snapshot) Run() (*Run, error) {
	return NewRun(s.Info, func(yield func(record.Record, error) bool) {
		for i := range s.Records {
			if !yield(s.Records[i], nil) {
				return
			}
		}
	})
}

// Encode returns the document that [Run.Encode] returns for s.
func (s *Snapshot) Encode() ([]byte, error) {
	run, err := s.Run()
	if err != nil {
		return nil, err
	}
	return run.Encode()
}
