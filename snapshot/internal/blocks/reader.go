package blocks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// maxBlock is the size of the longest block that a Reader reads, so that a damaged table cannot
// make the Reader allocate much memory.
const maxBlock = 16 << 20

// A Reader reads single blocks of a file. It is for one goroutine.
type Reader struct {
	in    io.ReaderAt
	table []byte
	buf   []byte
}

// NewReader reads the table of a file of that size. The error is ErrNoTable if the file has no
// valid table, or the error of in.
func NewReader(in io.ReaderAt, size int64) (*Reader, error) {
	r := &Reader{in: in}
	end, err := r.read(size-endSize, size)
	if err != nil {
		return nil, err
	}
	lines := int64(binary.BigEndian.Uint32(end))
	if lines == 0 {
		return nil, ErrNoTable
	}
	table, err := r.read(size-lines*lineSize-endSize, size)
	if err != nil {
		return nil, err
	}
	if table, err = tableOf(table); err != nil {
		return nil, err
	}
	r.table = bytes.Clone(table)
	return r, nil
}

// Len returns the number of blocks.
func (r *Reader) Len() int { return len(r.table) / lineSize }

// Block reads block i, from 0 to Len-1. The next call overwrites the result. The error is
// ErrChecksum if the block has changed since it was written.
func (r *Reader) Block(i int) ([]byte, error) {
	begin := int64(0)
	if i > 0 {
		begin = r.end(i - 1)
	}
	data, err := r.read(begin, r.end(i))
	if err != nil {
		return nil, err
	}
	if crc32.Checksum(data, castagnoli) != binary.BigEndian.Uint32(r.table[i*lineSize+8:]) {
		return nil, ErrChecksum
	}
	return data, nil
}

func (r *Reader) end(i int) int64 { return int64(binary.BigEndian.Uint64(r.table[i*lineSize:])) }

// read reads a part of the file.
func (r *Reader) read(begin, end int64) ([]byte, error) {
	if begin < 0 || end < begin || end-begin > maxBlock {
		return nil, ErrNoTable
	}
	if int64(cap(r.buf)) < end-begin {
		r.buf = make([]byte, end-begin)
	}
	r.buf = r.buf[:end-begin]
	n, err := r.in.ReadAt(r.buf, begin)
	switch {
	case n == len(r.buf):
		return r.buf, nil
	case errors.Is(err, io.EOF):
		return nil, ErrNoTable
	}
	return nil, err
}
