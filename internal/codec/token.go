package codec

import (
	"encoding/binary"
	"fmt"
	"math"
)

// kind is what a msgpack value is, by its first byte.
type kind uint8

const (
	kindNil kind = iota
	kindBool
	kindInt
	kindUint
	kindFloat
	kindString
	kindBytes
	kindArray
	kindMap
	kindExt
)

// token is one msgpack head with its scalar, or the length of what follows.
// Source: https://github.com/msgpack/msgpack/blob/master/spec.md
type token struct {
	kind kind
	i    int64   // kindInt, kindBool (0, 1)
	u    uint64  // kindUint
	f    float64 // kindFloat
	ext  int8    // kindExt: its type
	body []byte  // kindString, kindBytes, kindExt
	n    int     // kindArray: elements; kindMap: pairs
}

// next reads one token off data and returns what follows it.
func next(data []byte) (token, []byte, error) {
	if len(data) == 0 {
		return token{}, nil, fmt.Errorf("codec: %w: it ends where a value should begin", ErrMalformed)
	}
	c, rest := data[0], data[1:]
	switch {
	case c <= 0x7f:
		return token{kind: kindInt, i: int64(c)}, rest, nil
	case c >= 0xe0:
		return token{kind: kindInt, i: int64(int8(c))}, rest, nil
	case c <= 0x8f:
		return sized(token{kind: kindMap}, uint64(c&0x0f), rest)
	case c <= 0x9f:
		return sized(token{kind: kindArray}, uint64(c&0x0f), rest)
	case c <= 0xbf:
		return sized(token{kind: kindString}, uint64(c&0x1f), rest)
	}
	switch c {
	case 0xc0:
		return token{kind: kindNil}, rest, nil
	case 0xc2, 0xc3:
		return token{kind: kindBool, i: int64(c & 1)}, rest, nil
	case 0xca, 0xcb, 0xcc, 0xcd, 0xce, 0xcf, 0xd0, 0xd1, 0xd2, 0xd3:
		return number(c, rest)
	case 0xc4, 0xc5, 0xc6:
		return counted(token{kind: kindBytes}, 1<<(c-0xc4), rest)
	case 0xc7, 0xc8, 0xc9:
		return counted(token{kind: kindExt}, 1<<(c-0xc7), rest)
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		return sized(token{kind: kindExt}, 1<<(c-0xd4), rest)
	case 0xd9, 0xda, 0xdb:
		return counted(token{kind: kindString}, 1<<(c-0xd9), rest)
	case 0xdc, 0xdd:
		return counted(token{kind: kindArray}, 2<<(c-0xdc), rest)
	case 0xde, 0xdf:
		return counted(token{kind: kindMap}, 2<<(c-0xde), rest)
	}
	return token{}, nil, fmt.Errorf("codec: %w: 0x%02x begins no value", ErrMalformed, c)
}

// number reads the fixed-width numbers, floats and integers.
func number(c byte, rest []byte) (token, []byte, error) {
	width := 1 << ((c - 0xcc) & 3)
	if c <= 0xcb {
		width = 4 << (c - 0xca)
	}
	u, rest, err := bigEndian(rest, width)
	if err != nil {
		return token{}, nil, err
	}
	switch {
	case c == 0xca:
		return token{kind: kindFloat, f: float64(math.Float32frombits(uint32(u)))}, rest, nil
	case c == 0xcb:
		return token{kind: kindFloat, f: math.Float64frombits(u)}, rest, nil
	case c <= 0xcf:
		if u <= math.MaxInt64 {
			return token{kind: kindInt, i: int64(u)}, rest, nil
		}
		return token{kind: kindUint, u: u}, rest, nil
	}
	shift := 64 - 8*width
	return token{kind: kindInt, i: int64(u<<shift) >> shift}, rest, nil
}

// counted reads a length of width bytes, and then as sized.
func counted(t token, width int, rest []byte) (token, []byte, error) {
	n, rest, err := bigEndian(rest, width)
	if err != nil {
		return token{}, nil, err
	}
	return sized(t, n, rest)
}

// sized completes t, whose length is n, with what follows.
func sized(t token, n uint64, rest []byte) (token, []byte, error) {
	if t.kind == kindExt {
		if len(rest) == 0 {
			return token{}, nil, fmt.Errorf("codec: %w: an extension without its type", ErrMalformed)
		}
		t.ext, rest = int8(rest[0]), rest[1:]
	}
	// Every element is a byte at least: a length that promises more than
	// there is would only be found out after it was allocated.
	if n > uint64(len(rest)) || t.kind == kindMap && 2*n > uint64(len(rest)) {
		return token{}, nil, fmt.Errorf("codec: %w: a length of %d with %d bytes left", ErrMalformed, n, len(rest))
	}
	if t.kind == kindArray || t.kind == kindMap {
		t.n = int(n)
		return t, rest, nil
	}
	t.body = rest[:n:n]
	return t, rest[n:], nil
}

func bigEndian(b []byte, width int) (uint64, []byte, error) {
	if len(b) < width {
		return 0, nil, fmt.Errorf("codec: %w: a number is cut off", ErrMalformed)
	}
	switch width {
	case 1:
		return uint64(b[0]), b[1:], nil
	case 2:
		return uint64(binary.BigEndian.Uint16(b)), b[2:], nil
	case 4:
		return uint64(binary.BigEndian.Uint32(b)), b[4:], nil
	}
	return binary.BigEndian.Uint64(b), b[8:], nil
}

// maxNesting bounds recursion over bytes from outside.
const maxNesting = 1000

// Skip returns what follows the first value of data.
func Skip(data []byte) ([]byte, error) { return skip(data, 0) }

func skip(data []byte, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("codec: %w: nested deeper than %d", ErrMalformed, maxNesting)
	}
	t, rest, err := next(data)
	if err != nil {
		return nil, err
	}
	n := t.n
	if t.kind == kindMap {
		n *= 2
	}
	for range n {
		if rest, err = skip(rest, depth+1); err != nil {
			return nil, err
		}
	}
	return rest, nil
}
