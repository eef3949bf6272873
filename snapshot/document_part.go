package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"sort"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// A Document is a document of [Run.Encode] of which parts are read: as much as
// is asked for, a block at a time. It is for one goroutine.
type Document struct {
	Info  Info
	in    io.ReaderAt
	table []byte // of the blocks with records
	begin int64  // of the first of them
	buf   []byte
}

// partMost is the longest block that a Document reads, for what a file says of
// itself must not take memory before it is known to be so. A record that is
// longer is alone in its block.
const partMost = 16 << 20

// errWhole is of a document that cannot be read in parts.
var errWhole = errors.New("snapshot: not a document to be read in parts")

// OpenDocument reads the beginning of a document of that size, and its table of
// checksums. It fails if that cannot be read, and if the document is damaged, of
// another version, or was not written by [Run.Encode]: [Decode] says which.
func OpenDocument(in io.ReaderAt, size int64) (*Document, error) {
	d := &Document{in: in}
	end, err := d.read(size-tableEnd, size)
	if err != nil {
		return nil, err
	}
	lines := int64(binary.BigEndian.Uint32(end))
	if lines < 2 || (lines-3)*blockSize > size || lines*blockLine+tableEnd > size {
		return nil, errWhole
	}
	table, err := d.read(size-lines*blockLine-tableEnd, size)
	if err != nil {
		return nil, err
	}
	if table, err = tableOf(table); err != nil {
		return nil, errWhole
	}
	d.table = append([]byte(nil), table...)
	head, err := d.block(0)
	if err != nil {
		return nil, err
	}
	if err := d.readHead(head); err != nil {
		return nil, err
	}
	d.begin = int64(binary.BigEndian.Uint64(d.table))
	d.table = d.table[blockLine : len(d.table)-blockLine]
	return d, nil
}

// readHead reads the block before the first record.
func (d *Document) readHead(head []byte) error {
	if checkBeginning(head) != nil {
		return errWhole
	}
	in := codec.NewReader(head)
	defer in.Release()
	for key := range in.Pairs() {
		if key == "records" {
			if isArrayHead(head[in.Offset():], d.Info.LastSeq) {
				return nil
			}
			break
		}
		d.Info.read(in, key)
	}
	return errWhole
}

// isArrayHead reports whether data is the head of an array of n, the rest of
// which is in other blocks.
func isArrayHead(data []byte, n uint64) bool {
	w := codec.NewWriter(nil)
	w.Array(int(n))
	return bytes.Equal(data, w.Finish())
}

// read reads a part of the document. It is overwritten by the next.
func (d *Document) read(begin, end int64) ([]byte, error) {
	if begin < 0 || end < begin || end-begin > partMost {
		return nil, errWhole
	}
	if int64(cap(d.buf)) < end-begin {
		d.buf = make([]byte, end-begin)
	}
	d.buf = d.buf[:end-begin]
	n, err := d.in.ReadAt(d.buf, begin)
	switch {
	case n == len(d.buf):
		return d.buf, nil
	case errors.Is(err, io.EOF):
		return nil, errWhole
	}
	return nil, err
}

// block reads a block that is in the table.
func (d *Document) block(i int) ([]byte, error) {
	line, begin := d.table[i*blockLine:], d.begin
	if i > 0 {
		begin = int64(binary.BigEndian.Uint64(d.table[(i-1)*blockLine:]))
	}
	data, err := d.read(begin, int64(binary.BigEndian.Uint64(line)))
	if err == nil && crc32.Checksum(data, castagnoli) != binary.BigEndian.Uint32(line[8:]) {
		err = errWhole
	}
	return data, err
}

// RecordsAfter yields the records whose numbers are above seq, reading the
// blocks that they are in and a few others to find them. Its errors are those
// of OpenDocument.
func (d *Document) RecordsAfter(seq uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		if seq >= d.Info.LastSeq {
			return
		}
		i, err := d.find(seq + 1)
		next, decoding := uint64(0), newDecoding() // next is not known before the first
		defer decoding.release()
		for ; err == nil && i*blockLine < len(d.table); i++ {
			var data []byte
			if data, err = d.block(i); err != nil {
				break
			}
			var more bool
			if next, more, err = d.yield(data, decoding, next, seq, yield); !more {
				return
			}
		}
		if err == nil && next != d.Info.LastSeq+1 {
			err = errWhole
		}
		if err != nil {
			yield(record.Record{}, err)
		}
	}
}

// yield yields the records of a block, which begins with next unless that is 0,
// and returns what comes after it.
func (d *Document) yield(data []byte, decoding *decoding, next, after uint64, yield func(record.Record, error) bool) (uint64, bool, error) {
	in := codec.NewReader(data)
	defer in.Release()
	for in.Len() > 0 {
		encoded, n, err := cutRecord(in)
		if err != nil || next != 0 && n != next {
			return next, true, errWhole
		}
		next = n + 1
		if n <= after {
			continue
		}
		rec, err := decoding.decode(encoded)
		if err != nil {
			return next, true, fmt.Errorf("snapshot: run %s: record %d: %w", d.Info.RunID, n, err)
		}
		rec.RunID = d.Info.RunID
		if !yield(rec, nil) {
			return next, false, nil
		}
	}
	return next, true, nil
}

// find returns the block that has the record with that number: the last that
// begins with it or one before.
func (d *Document) find(seq uint64) (int, error) {
	var failed error
	i := sort.Search(len(d.table)/blockLine, func(i int) bool {
		data, err := d.block(i)
		if err == nil {
			in := codec.NewReader(data)
			defer in.Release()
			var first uint64
			if _, first, err = cutRecord(in); err == nil {
				return first > seq
			}
			err = errWhole
		}
		failed = err
		return true
	})
	if failed == nil && i == 0 {
		failed = errWhole
	}
	return i - 1, failed
}
