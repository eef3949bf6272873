package blocks

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

// The errors for damaged files.
var (
	ErrNoTable  = errors.New("no table of checksums at the end")
	ErrChecksum = errors.New("the checksum does not match")
)

// Check returns how many bytes at the beginning of a file are undamaged. If a block is damaged, the
// error is ErrChecksum. If the blocks do not extend to the table, the error is ErrNoTable. If there
// is no valid table, nothing is known about the blocks: Check returns the size of the file, and the
// error is ErrNoTable.
func Check(data []byte) (whole int, err error) {
	table, err := tableOf(data)
	if err != nil {
		return len(data), err
	}
	size := len(table) + endSize
	for ; len(table) > 0; table = table[lineSize:] {
		end := binary.BigEndian.Uint64(table)
		if end < uint64(whole) || end > uint64(len(data)) ||
			crc32.Checksum(data[whole:end], castagnoli) != binary.BigEndian.Uint32(table[8:]) {
			return whole, ErrChecksum
		}
		whole = int(end)
	}
	if whole != len(data)-size {
		return whole, ErrNoTable
	}
	return whole, nil
}

// tableOf returns the lines of the table at the end of data. It verifies the table's checksum.
func tableOf(data []byte) ([]byte, error) {
	if len(data) < endSize {
		return nil, ErrNoTable
	}
	lines := int64(binary.BigEndian.Uint32(data[len(data)-endSize:]))
	size := lines*lineSize + endSize
	if size > int64(len(data)) {
		return nil, ErrNoTable
	}
	table := data[int64(len(data))-size:]
	if crc32.Checksum(table[:size-4], castagnoli) != binary.BigEndian.Uint32(table[size-4:]) {
		return nil, ErrNoTable
	}
	return table[:size-endSize], nil
}
