package blocks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// maxBlock is the maximum size of a block that a Reader reads. It limits the memory that a
// Reader allocates if the table is damaged.
const maxBlock = 16 << 20

// A Reader reads single blocks from a file. It is not safe for concurrent use.
type Reader struct {
	in    io.ReaderAt
	table []byte
	buf   []byte
}

// NewReader returns a Reader for a file with the given size, and reads the file's table. If the
// file has no valid table, the error is ErrNoTable. If reading fails, the error is the one from in.
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

// Block reads block i, from 0 to Len-1. The result is valid until the next call. The error is
// ErrChecksum if the block is damaged, and ErrNoTable if the table's entry for the block is invalid:
// the block is longer than maxBlock or extends beyond the file.
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

// read reads the file from begin to end.
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
