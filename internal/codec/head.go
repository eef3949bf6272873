package codec

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// kind is the kind of a msgpack value, determined by its first byte.
type kind uint8

const (
	kindNil kind = iota
	kindBool
	kindInt  // fits an int64
	kindUint // larger numbers
	kindFloat
	kindString
	kindBytes
	kindArray
	kindMap
	kindExt
)

// head is the head of a msgpack value, with its scalar or the length of its content.
// Source: https://github.com/msgpack/msgpack/blob/master/spec.md
type head struct {
	kind kind
	ext  int8   // kindExt: its type
	bits uint64 // 0 or 1 for kindBool; the bits for kindInt, kindUint and kindFloat
	n    int    // elements for kindArray; pairs for kindMap; otherwise the length of body
	body []byte // kindString, kindBytes, kindExt
}

func (h head) bool() bool     { return h.bits != 0 }
func (h head) int() int64     { return int64(h.bits) }
func (h head) float() float64 { return math.Float64frombits(h.bits) }

// The codes of nil and false; true is the code after false.
const (
	codeNil   = 0xc0
	codeFalse = 0xc2
)

// values returns how many values follow in the array or map.
func (h head) values() int {
	switch h.kind {
	case kindArray:
		return h.n
	case kindMap:
		return 2 * h.n
	}
	return 0
}

// ErrMalformed is matched, with errors.Is, by every error that is caused by data that is not
// msgpack.
var ErrMalformed = errors.New("malformed msgpack")

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrMalformed, fmt.Errorf(format, args...))
}

// A code describes the first byte of a value.
type code struct {
	kind  kind  // kindUint for all unsigned numbers; none if the byte is unused
	width int8  // size in bytes of the number or length that follows
	n     uint8 // the number or length itself if none follows
}

// none is the kind of a missing value.
const none kind = 0xff

var codes = func() (all [256]code) {
	for c := range all {
		switch {
		case c <= 0x7f, c >= 0xe0:
			all[c] = code{kind: kindInt, n: uint8(c)}
		case c <= 0x8f:
			all[c] = code{kind: kindMap, n: uint8(c & 0x0f)}
		case c <= 0x9f:
			all[c] = code{kind: kindArray, n: uint8(c & 0x0f)}
		case c <= 0xbf:
			all[c] = code{kind: kindString, n: uint8(c & 0x1f)}
		}
	}
	all[codeNil] = code{kind: kindNil}
	all[0xc1] = code{kind: none}
	all[0xc2] = code{kind: kindBool}
	all[0xc3] = code{kind: kindBool, n: 1}
	all[0xca] = code{kind: kindFloat, width: 4}
	all[0xcb] = code{kind: kindFloat, width: 8}
	for i := range 4 {
		all[0xcc+i] = code{kind: kindUint, width: 1 << i}
		all[0xd0+i] = code{kind: kindInt, width: 1 << i}
	}
	for i := range 3 {
		all[0xc4+i] = code{kind: kindBytes, width: 1 << i}
		all[0xc7+i] = code{kind: kindExt, width: 1 << i}
		all[0xd9+i] = code{kind: kindString, width: 1 << i}
	}
	for i := range 5 {
		all[0xd4+i] = code{kind: kindExt, n: 1 << i}
	}
	for i := range 2 {
		all[0xdc+i] = code{kind: kindArray, width: 2 << i}
		all[0xde+i] = code{kind: kindMap, width: 2 << i}
	}
	return all
}()

// next reads one head from data, including the body if it is a string, bytes or an extension, and
// returns the rest of data.
func next(data []byte) (h head, rest []byte, err error) {
	n, err := h.read(data)
	if err != nil {
		return head{}, nil, err
	}
	return h, data[n:], nil
}

// read is like next, but for a head that is reused. It returns the number of bytes read.
func (h *head) read(data []byte) (size int, err error) {
	if len(data) == 0 {
		return 0, malformed("got the end, want a value")
	}
	f := codes[data[0]]
	h.kind, h.bits, h.n, h.body = f.kind, uint64(f.n), 0, nil
	size = 1 + int(f.width)
	if len(data) < size {
		return 0, malformed("a number is cut off")
	}
	switch f.width {
	case 1:
		h.bits = uint64(data[1])
	case 2:
		h.bits = uint64(binary.BigEndian.Uint16(data[1:]))
	case 4:
		h.bits = uint64(binary.BigEndian.Uint32(data[1:]))
	case 8:
		h.bits = binary.BigEndian.Uint64(data[1:])
	}
	switch f.kind {
	case kindInt:
		shift := 64 - 8*max(int(f.width), 1)
		h.bits = uint64(int64(h.bits<<shift) >> shift) // extends the sign
	case kindUint:
		if h.bits <= math.MaxInt64 {
			h.kind = kindInt
		}
	case kindFloat:
		if f.width == 4 {
			h.bits = math.Float64bits(float64(math.Float32frombits(uint32(h.bits))))
		}
	case kindString, kindBytes, kindArray, kindMap, kindExt:
		return h.readSized(data, size)
	case none:
		return 0, malformed("0x%02x is not the beginning of a value", data[0])
	}
	return size, nil
}

// readSized completes h, whose length is in h.bits, from the bytes that follow the first size bytes
// of data.
func (h *head) readSized(data []byte, size int) (int, error) {
	if h.kind == kindExt {
		if len(data) == size {
			return 0, malformed("got the end, want the type of an extension")
		}
		h.ext = int8(data[size])
		size++
	}
	// Each element takes at least one byte, so an impossible length is rejected before
	// anything is allocated.
	left := uint64(len(data) - size)
	if h.bits > left || h.kind == kindMap && 2*h.bits > left {
		return 0, malformed("a length of %d, but %d bytes are left", h.bits, left)
	}
	h.n = int(h.bits)
	if h.kind == kindArray || h.kind == kindMap {
		return size, nil
	}
	h.body = data[size : size+h.n : size+h.n]
	return size + h.n, nil
}

// maxNesting limits recursion over external input.
const maxNesting = 1000

// Skip returns the rest of data after its first value.
func Skip(data []byte) ([]byte, error) {
	rest, _, err := scan(data)
	return rest, err
}

// extensions tells which of this package's extensions a value contains.
type extensions struct{ times, json bool }

// scan is like Skip, and also reports which extensions the value contains.
func scan(data []byte) (rest []byte, found extensions, err error) {
	rest, err = skip(data, 1, false, 0, &found)
	if err != nil {
		return nil, extensions{}, fmt.Errorf("codec: %w", err)
	}
	return rest, found, nil
}

// keyNesting is the number of levels that an array or a map adds if it is a key in a map. In JSON,
// such a key is a string in which quotes are escaped, so the text would double in length with each
// level of keys.
const keyNesting = maxNesting / 8

// skip skips the given number of values at the beginning of data, and returns the rest. depth is
// the nesting level of the values. In a map, every other value is a key.
func skip(data []byte, values int, inMap bool, depth int, found *extensions) ([]byte, error) {
	if depth > maxNesting {
		return nil, malformed("nested deeper than %d levels, where a map key counts as %d levels", maxNesting, keyNesting)
	}
	var h head
	for i := 0; i < values; i++ {
		if data, i = skipFlat(data, i, values); i == values {
			break
		}
		size, err := h.read(data)
		if err != nil {
			return nil, err
		}
		data = data[size:]
		if h.kind == kindExt {
			found.times = found.times || h.ext == timeExt
			found.json = found.json || h.ext == jsonExt
		}
		if inside := h.values(); inside > 0 {
			deeper := depth + 1
			if inMap && i%2 == 0 {
				deeper += keyNesting
			}
			if data, err = skip(data, inside, h.kind == kindMap, deeper, found); err != nil {
				return nil, err
			}
		}
	}
	return data, nil
}

// flatSizes holds the size of a value by its first byte, if that byte determines the size. It does
// for a number, a boolean, nil, an empty array or map, and a string of less than 32 bytes.
var flatSizes = func() (sizes [256]uint8) {
	for c, f := range codes {
		switch f.kind {
		case kindNil, kindBool, kindInt, kindUint, kindFloat:
			sizes[c] = 1 + uint8(f.width)
		case kindString:
			if f.width == 0 {
				sizes[c] = 1 + f.n
			}
		}
	}
	sizes[0x80], sizes[0x90] = 1, 1
	return sizes
}()

// skipFlat skips complete values of the most common kinds, starting with value i and stopping
// before value end. The most common kinds are those in flatSizes, and strings and bytes of less
// than 256 bytes.
func skipFlat(data []byte, i, end int) (rest []byte, next int) {
	at := 0
	for ; i < end && at < len(data); i++ {
		size := int(flatSizes[data[at]])
		if size == 1 { // most values; the processor need not wait for the size
			at++
			continue
		}
		if size == 0 {
			if c := data[at]; c != 0xc4 && c != 0xd9 || at+1 == len(data) {
				break
			}
			size = 2 + int(data[at+1])
		}
		if size > len(data)-at {
			break
		}
		at += size
	}
	return data[at:], i
}

// skipAll is like Skip, but for data that must consist of a single value.
func skipAll(data []byte) error {
	rest, err := Skip(data)
	if err == nil && len(rest) > 0 {
		return fmt.Errorf("codec: %d bytes after the value", len(rest))
	}
	return err
}
