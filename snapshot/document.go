package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/durable"
	"github.com/reprise-go/reprise/snapshot/internal/blocks"
)

// A document is one msgpack map. It contains the run's Info, its records, a summary of
// the records and, at the end, a table of checksums. Each checksum covers one block. A
// block begins where the previous one ends, and contains:
//
//	first     the map up to the first record
//	others    records, in total about blocks.Size
//	last      everything between the last record and the table of checksums
//
// The checksums show where a document is damaged, and that the records before the
// damage are intact.

const magic = "reprise-run"

// beginning is the text that follows the head of the map in every document. The head
// contains the number of pairs.
const beginning = "\xa6format\xab" + magic + "\xa7version"

// ownPairs is the number of pairs that are not part of the Info: format, version,
// records, values, artifacts, checksums.
const ownPairs = 6

// Encode returns the run as one msgpack document in the format described in docs/format.md. For
// readers that do not use Reprise, the document also lists the run's values and artifacts, although
// these can be derived from the records.
func (r *Run) Encode() ([]byte, error) {
	size := 4 << 10
	for _, rec := range r.encoded {
		size += len(rec)
	}
	out := bytes.NewBuffer(make([]byte, 0, size+blocks.Overhead(size)))
	_, err := r.WriteTo(out)
	return out.Bytes(), err
}

// WriteFile writes the document, as Encode returns it, to a file that only its owner can read. It
// replaces an existing file only when the new one is complete and synced. When it returns nil, the
// file survives a power failure, if the file system can sync directories.
func (r *Run) WriteFile(name string) error {
	return durable.WriteFile(name, func(w io.Writer) error {
		_, err := r.WriteTo(w)
		return err
	})
}

// WriteTo writes the document that Encode returns, one block at a time.
func (r *Run) WriteTo(w io.Writer) (int64, error) {
	if err := r.checkTimes(); err != nil {
		return 0, fmt.Errorf("snapshot: encode run %s: %w", r.RunID, err)
	}
	var sum totals
	for rec, err := range r.Records() {
		if err != nil {
			return 0, err
		}
		sum.add(&rec)
	}
	out := blocks.NewWriter(w)
	m := codec.NewWriter(nil)
	m.Map(infoPairs + ownPairs)
	m.Key("format").Text(magic)
	m.Key("version").Uint(FormatVersion)
	info := r.Info
	info.LastSeq = r.last()
	info.write(m)
	m.Key("records").Array(len(r.encoded))
	out.Block(m.Finish())
	var records []byte
	for _, rec := range r.encoded {
		if records = append(records, rec...); len(records) >= blocks.Size {
			out.Block(records)
			records = records[:0]
		}
	}
	if len(records) > 0 {
		out.Block(records)
	}
	m = codec.NewWriter(nil)
	sum.write(m)
	m.Text("checksums")
	return out.End(m.Finish())
}

// Decode decodes a document returned by [Run.Encode]. The run refers to data, so data must not be
// modified. If data is not a document, or is one written by a newer version, the error is
// ErrFormat. If the document is damaged, Decode returns a *[CorruptError] and a run with the
// records before the damage.
func Decode(data []byte) (*Run, error) {
	err := checkBeginning(data)
	whole, damage := checkBlocks(data)
	if errors.Is(err, ErrFormat) && IsDocument(data) && damage != nil && whole == 0 {
		return new(Run), damage // the first block is damaged, so the version in it may be wrong
	}
	if err != nil {
		return nil, err
	}
	r := new(Run)
	err = r.readDocument(data[:whole])
	switch {
	case damage == nil && errors.Is(err, ErrFormat):
		return nil, err
	case damage == nil && err != nil:
		damage = &CorruptError{Offset: int64(whole), Err: err}
	}
	if damage == nil && r.LastSeq != r.last() {
		damage = &CorruptError{Offset: int64(len(data)), Err: fmt.Errorf("the last record is %d, but the document says %d", r.last(), r.LastSeq)}
	}
	if damage != nil {
		damage.RunID, damage.LastSeq, r.LastSeq = r.RunID, r.last(), r.last()
		return r, damage
	}
	return r, nil
}

// IsDocument reports whether data begins like a document.
func IsDocument(data []byte) bool {
	rest := afterMapHead(data)
	return len(rest) >= len(beginning) && string(rest[:len(beginning)]) == beginning
}

// checkBeginning checks that data begins like a document, and checks the document's version. The
// version is at the same offset in documents of all versions.
func checkBeginning(data []byte) error {
	if len(data) == 0 {
		return &CorruptError{Err: errors.New("it is empty")}
	}
	if !IsDocument(data) {
		rest := afterMapHead(data)
		if rest != nil && len(rest) < len(beginning) && string(rest) == beginning[:len(rest)] {
			return &CorruptError{Offset: int64(len(data)), Err: blocks.ErrNoTable}
		}
		return fmt.Errorf("%w: byte 0: not a run of Reprise, which would begin with the pair \"format: %s\"; `reprise export RUN --format msgpack -o FILE` writes such files", ErrFormat, magic)
	}
	in := codec.NewReader(data)
	defer in.Release()
	in.Rewind(len(data) - len(afterMapHead(data)) + len(beginning))
	version := in.Uint()
	switch {
	case in.Err() != nil:
		return &CorruptError{Offset: int64(in.Offset()), Err: in.Err()}
	case version > FormatVersion:
		return errNewer("the document", version)
	case version < FormatVersion:
		return &CorruptError{Offset: int64(in.Offset()), Err: fmt.Errorf("there was never a version %d", version)}
	}
	return nil
}

// afterMapHead returns the data that follows the head of a map, or nil if data is not a map.
func afterMapHead(data []byte) []byte {
	switch {
	case len(data) == 0:
		return nil
	case data[0] >= 0x80 && data[0] <= 0x8f:
		return data[1:]
	case data[0] == 0xde:
		return data[min(3, len(data)):]
	case data[0] == 0xdf:
		return data[min(5, len(data)):]
	}
	return nil
}

// checkBlocks returns the number of undamaged bytes at the beginning of a document, and what is
// wrong after them.
func checkBlocks(data []byte) (whole int, damage *CorruptError) {
	whole, err := blocks.Check(data)
	if err != nil {
		return whole, &CorruptError{Offset: int64(whole), Err: err}
	}
	return whole, nil
}

// readDocument reads a document, or the undamaged beginning of one. A missing end is
// not an error here, because checkBlocks detects it.
func (r *Run) readDocument(data []byte) error {
	in := codec.NewReader(data)
	defer in.Release()
	for n := in.Map(); n > 0 && in.Len() > 0 && in.Err() == nil; n-- {
		key := in.Name()
		switch {
		case in.Err() != nil:
		case key == "records":
			if err := r.readRecords(in); err != nil {
				return err
			}
		case key == "checksums":
			return nil // nothing follows the checksums
		default:
			r.Info.read(in, key)
		}
		if err := in.Err(); err != nil {
			return fmt.Errorf("%q: %w", key, err)
		}
	}
	return in.Err()
}

func (r *Run) readRecords(in *codec.Reader) error {
	n := in.Array()
	r.encoded = make([][]byte, 0, min(n, in.Len()/recordFields+1))
	for range n {
		if in.Len() == 0 {
			return nil
		}
		encoded, seq, err := cutRecord(in)
		if err == nil && seq != r.last()+1 {
			err = fmt.Errorf("%w: record %d where record %d is expected", ErrCorrupt, seq, r.last()+1)
		}
		if err != nil {
			return err
		}
		r.encoded = append(r.encoded, encoded)
	}
	return nil
}
