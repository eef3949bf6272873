package blocks

import (
	"encoding/binary"
	"hash/crc32"
	"io"
)

// Size is the approximate size of a block. A longer record has a block of its own.
const Size = 4 << 10

const (
	lineSize = 12 // size of a line of the table, which describes one block
	endSize  = 8  // size of the rest of the table, after the lines
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Overhead returns approximately how many bytes the table adds to a file whose blocks have
// the given total size.
func Overhead(size int) int { return lineSize * size / Size }

// A Writer writes blocks, followed by the table of their checksums. After the
// first error, it writes nothing more.
type Writer struct {
	w     io.Writer
	n     int64
	table []byte
	err   error
}

// NewWriter returns a Writer that writes to w.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Block writes data as one block.
func (b *Writer) Block(data []byte) {
	b.table = binary.BigEndian.AppendUint64(b.table, uint64(b.n)+uint64(len(data)))
	b.table = binary.BigEndian.AppendUint32(b.table, crc32.Checksum(data, castagnoli))
	b.write(data)
}

// End writes the last block and the table. The last block consists of data and the head of the
// bin that contains the table. End returns the total number of bytes written and the first error.
func (b *Writer) End(data []byte) (int64, error) {
	lines := uint32(len(b.table)/lineSize) + 1
	data = append(data, 0xc6) // a bin with a 4-byte length
	data = binary.BigEndian.AppendUint32(data, lines*lineSize+endSize)
	b.Block(data)
	b.table = binary.BigEndian.AppendUint32(b.table, lines)
	b.table = binary.BigEndian.AppendUint32(b.table, crc32.Checksum(b.table, castagnoli))
	b.write(b.table)
	return b.n, b.err
}

func (b *Writer) write(data []byte) {
	if b.err == nil {
		var n int
		n, b.err = b.w.Write(data)
		b.n += int64(n)
	}
}
