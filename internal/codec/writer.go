package codec

import (
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
)

// A Writer appends msgpack values to a slice, each in its shortest form. It is
// not safe for concurrent use.
type Writer struct{ out []byte }

// NewWriter returns a Writer that appends to dst.
func NewWriter(dst []byte) *Writer { return &Writer{dst} }

// Finish returns the slice with everything that was appended.
func (w *Writer) Finish() []byte { return w.out }

// Array begins an array of n values.
func (w *Writer) Array(n int) { w.length(n, 0x90, 15, 0xdc) }

// Map begins a map of n pairs.
func (w *Writer) Map(n int) { w.length(n, 0x80, 15, 0xde) }

// length appends the length n. If n does not exceed most, n is part of the byte fixed. Otherwise n
// is written as 16 bits after code, or as 32 bits after code+1.
func (w *Writer) length(n int, fixed byte, most int, code byte) {
	switch {
	case n <= most:
		w.out = append(w.out, fixed|byte(n))
	case n <= math.MaxUint16:
		w.out = binary.BigEndian.AppendUint16(append(w.out, code), uint16(n))
	default:
		w.out = binary.BigEndian.AppendUint32(append(w.out, code+1), uint32(n))
	}
}

// Nil appends nil.
func (w *Writer) Nil() { w.out = append(w.out, 0xc0) }

// Bool appends b.
func (w *Writer) Bool(b bool) {
	if b {
		w.out = append(w.out, 0xc3)
	} else {
		w.out = append(w.out, 0xc2)
	}
}

// Int appends n.
func (w *Writer) Int(n int64) {
	switch {
	case n >= 0:
		w.Uint(uint64(n))
	case n >= -32:
		w.out = append(w.out, byte(n))
	case n >= math.MinInt8:
		w.out = append(w.out, 0xd0, byte(n))
	case n >= math.MinInt16:
		w.out = binary.BigEndian.AppendUint16(append(w.out, 0xd1), uint16(n))
	case n >= math.MinInt32:
		w.out = binary.BigEndian.AppendUint32(append(w.out, 0xd2), uint32(n))
	default:
		w.out = binary.BigEndian.AppendUint64(append(w.out, 0xd3), uint64(n))
	}
}

// Uint appends n.
func (w *Writer) Uint(n uint64) {
	switch {
	case n <= math.MaxInt8:
		w.out = append(w.out, byte(n))
	case n <= math.MaxUint8:
		w.out = append(w.out, 0xcc, byte(n))
	case n <= math.MaxUint16:
		w.out = binary.BigEndian.AppendUint16(append(w.out, 0xcd), uint16(n))
	case n <= math.MaxUint32:
		w.out = binary.BigEndian.AppendUint32(append(w.out, 0xce), uint32(n))
	default:
		w.out = binary.BigEndian.AppendUint64(append(w.out, 0xcf), n)
	}
}

// Float appends f as 64 bits.
func (w *Writer) Float(f float64) {
	w.out = binary.BigEndian.AppendUint64(append(w.out, 0xcb), math.Float64bits(f))
}

// Float32 appends f as 32 bits.
func (w *Writer) Float32(f float32) {
	w.out = binary.BigEndian.AppendUint32(append(w.out, 0xca), math.Float32bits(f))
}

// Ext begins an extension of the given type, with a body of n bytes.
func (w *Writer) Ext(extType int8, n int) {
	switch {
	case n == 1 || n == 2 || n == 4 || n == 8 || n == 16:
		w.out = append(w.out, 0xd4+byte(bits.TrailingZeros(uint(n))))
	case n <= math.MaxUint8:
		w.out = append(w.out, 0xc7, byte(n))
	default:
		w.length(n, 0, -1, 0xc8)
	}
	w.out = append(w.out, byte(extType))
}

// insertMap turns the reserved byte at begin into the head of a map with the n pairs that follow
// it.
func (w *Writer) insertMap(begin, n int) {
	head := Writer{out: make([]byte, 0, 5)}
	head.Map(n)
	w.out = slices.Replace(w.out, begin, begin+1, head.out...)
}

// Text appends s as a str.
func (w *Writer) Text(s string) {
	if n := len(s); n > 31 && n <= math.MaxUint8 {
		w.out = append(w.out, 0xd9, byte(n))
	} else {
		w.length(n, 0xa0, 31, 0xda)
	}
	w.out = append(w.out, s...)
}

// Key appends the key of a map entry, and returns w so that the value can be appended.
func (w *Writer) Key(key string) *Writer {
	w.Text(key)
	return w
}

// Bytes appends b as a bin, or nil if b is nil.
func (w *Writer) Bytes(b []byte) {
	if b == nil {
		w.Nil()
		return
	}
	if n := len(b); n <= math.MaxUint8 {
		w.out = append(w.out, 0xc4, byte(n))
	} else {
		w.length(n, 0, -1, 0xc5)
	}
	w.out = append(w.out, b...)
}

// Raw appends data, which must already be msgpack.
func (w *Writer) Raw(data []byte) { w.out = append(w.out, data...) }

// BeginText begins a str and returns the slice to which its text must be appended. Pass the
// resulting slice to EndText; nothing else may be appended in between.
func (w *Writer) BeginText() []byte {
	w.out = append(w.out, 0xd9, 0) // str 8; EndText replaces it for long texts
	return w.out
}

// EndText completes the str appended to the result of BeginText.
func (w *Writer) EndText(out []byte) {
	begin := len(w.out)
	if n := len(out) - begin; n <= math.MaxUint8 {
		out[begin-1] = byte(n)
		w.out = out
	} else {
		w.out = w.out[:begin-2]
		w.Text(string(out[begin:]))
	}
}
