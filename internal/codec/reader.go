package codec

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
	"sync"
)

// A Reader reads the msgpack values in a slice one by one. After the first error, every value that
// it reads is zero, and Err returns that error. Only View, Skip and Since return parts of the
// slice; all other results are copies. A Reader never allocates more than the slice can fill. nil
// is read as the zero value of any type. A Reader is not safe for concurrent use.
type Reader struct {
	data  []byte
	off   int
	err   error
	h     head              // the last head read
	names map[string]string // recent names
	name  string            // the latest name
}

// maxNames is the number of names that a pooled Reader remembers, and maxName their maximum length.
const (
	maxNames = 256
	maxName  = 64
)

var readers = sync.Pool{New: func() any { return &Reader{names: make(map[string]string)} }}

// NewReader takes a Reader from the pool to read data. Release returns it to the
// pool.
func NewReader(data []byte) *Reader {
	r := readers.Get().(*Reader)
	r.Reset(data)
	return r
}

// Reset makes r read data from its beginning.
func (r *Reader) Reset(data []byte) { r.data, r.off, r.err = data, 0, nil }

// Release returns r to the pool. r must not be used afterwards.
func (r *Reader) Release() {
	r.data, r.h, r.err = nil, head{}, nil
	readers.Put(r)
}

// Err returns the first error. It matches [ErrMalformed] and contains the offset of the byte at
// which the unreadable value begins.
func (r *Reader) Err() error { return r.err }

// Offset returns the number of bytes read.
func (r *Reader) Offset() int { return r.off }

// Len returns the number of bytes left.
func (r *Reader) Len() int { return len(r.data) - r.off }

// Since returns the bytes read since an earlier Offset, as a part of the slice.
func (r *Reader) Since(offset int) []byte { return r.data[offset:r.off:r.off] }

// Rewind goes back to an earlier Offset.
func (r *Reader) Rewind(offset int) { r.off = offset }

// Fail records err as the error for the value that begins at byte begin, unless there is an earlier
// error.
func (r *Reader) Fail(begin int, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %w: %w", begin, ErrMalformed, err)
	}
	r.off = len(r.data)
}

// head reads one head, including the body if it is a string, bytes or an extension. After an error,
// it returns the head of nil. The result is valid until the next head is read.
func (r *Reader) head() *head {
	if r.err == nil {
		n, err := r.h.read(r.data[r.off:])
		r.off += n
		if err == nil {
			return &r.h
		}
		r.fail(r.off, err)
	}
	r.h = head{}
	return &r.h
}

// fail is like Fail, but for an error that already matches ErrMalformed.
func (r *Reader) fail(begin int, err error) {
	r.err = fmt.Errorf("byte %d: %w", begin, err)
	r.off = len(r.data)
}

// mismatch records that h, which begins at byte begin, is of the wrong kind.
func (r *Reader) mismatch(begin int, h *head, want string) {
	if h.kind != kindNil {
		r.Fail(begin, fmt.Errorf("got %s, want %s", h.describe(), want))
	}
}

// Bool reads a bool.
func (r *Reader) Bool() bool {
	begin := r.off
	if begin < len(r.data) && r.data[begin]&^1 == codeFalse {
		r.off++
		return r.data[begin] != codeFalse
	}
	h := r.head()
	if h.kind != kindBool {
		r.mismatch(begin, h, "a boolean")
		return false
	}
	return h.bool()
}

// Int reads an integer.
func (r *Reader) Int() int64 {
	begin := r.off
	if n, size := commonUint(r.data[begin:]); size > 0 && n <= math.MaxInt64 {
		r.off += size
		return int64(n)
	}
	h := r.head()
	switch h.kind {
	case kindInt:
		return h.int()
	case kindUint:
		r.Fail(begin, fmt.Errorf("%d is out of range for int64", h.bits))
	default:
		r.mismatch(begin, h, "an integer")
	}
	return 0
}

// Uint reads a non-negative integer.
func (r *Reader) Uint() uint64 {
	begin := r.off
	if n, size := commonUint(r.data[begin:]); size > 0 {
		r.off += size
		return n
	}
	h := r.head()
	switch {
	case h.kind == kindUint, h.kind == kindInt && h.int() >= 0:
		return h.bits
	case h.kind == kindInt:
		r.Fail(begin, fmt.Errorf("%d is negative", h.int()))
	default:
		r.mismatch(begin, h, "an integer")
	}
	return 0
}

// commonUint returns the integer at the beginning of data, and its size, if the integer has one of
// the most common forms: 7, 16 or 64 bits without a sign. For everything else, the size is 0.
func commonUint(data []byte) (n uint64, size int) {
	switch {
	case len(data) == 0:
	case data[0] < 0x80:
		return uint64(data[0]), 1
	case data[0] == 0xcd && len(data) >= 3:
		return uint64(binary.BigEndian.Uint16(data[1:])), 3
	case data[0] == 0xcf && len(data) >= 9:
		return binary.BigEndian.Uint64(data[1:]), 9
	}
	return 0, 0
}

// Float reads a number.
func (r *Reader) Float() float64 {
	begin := r.off
	h := r.head()
	switch h.kind {
	case kindFloat:
		return h.float()
	case kindInt:
		return float64(h.int())
	case kindUint:
		return float64(h.bits)
	}
	r.mismatch(begin, h, "a number")
	return 0
}

// Array begins an array and returns its length.
func (r *Reader) Array() int { return r.length(kindArray, "an array") }

// Map begins a map and returns the number of its pairs.
func (r *Reader) Map() int { return r.length(kindMap, "an object") }

// Pairs reads a map and yields the key of each pair, as read by [Reader.Name]. The loop body must
// read or skip the value. Pairs ends at the first error.
func (r *Reader) Pairs() iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := r.Map(); n > 0 && r.Err() == nil; n-- {
			if !yield(r.Name()) {
				return
			}
		}
	}
}

func (r *Reader) length(of kind, want string) int {
	begin := r.off
	if rest := r.data[begin:]; of == kindArray && len(rest) > 0 && rest[0]&^0x0f == 0x90 {
		if n := int(rest[0] & 0x0f); n < len(rest) {
			r.off++
			return n
		}
	} else if of == kindArray && len(rest) > 3 && rest[0] == 0xdc {
		if n := int(binary.BigEndian.Uint16(rest[1:])); n <= len(rest)-3 {
			r.off += 3
			return n
		}
	}
	h := r.head()
	if h.kind != of {
		r.mismatch(begin, h, want)
		return 0
	}
	return h.n
}

// Nil reads a nil if that is the next value, and reports whether it was.
func (r *Reader) Nil() bool {
	if r.Len() == 0 || r.data[r.off] != 0xc0 {
		return false
	}
	r.off++
	return true
}

// View reads a str or a bin, and returns it as a part of the slice. It returns nil for nil.
func (r *Reader) View() []byte {
	begin := r.off
	if begin < len(r.data) { // the most common case
		body, length := begin+1, -1
		switch c := r.data[begin]; {
		case c&^0x1f == 0xa0:
			length = int(c & 0x1f)
		case (c == 0xc4 || c == 0xd9) && body < len(r.data):
			body, length = body+1, int(r.data[body])
		}
		if end := body + length; length >= 0 && end <= len(r.data) {
			r.off = end
			return r.data[body:end:end]
		}
	}
	h := r.head()
	if h.kind != kindString && h.kind != kindBytes {
		r.mismatch(begin, h, "a string or bytes")
		return nil
	}
	return h.body
}

// Text reads a str.
func (r *Reader) Text() string {
	view := r.View()
	return string(view)
}

// Name reads a str that occurs often. Equal names share the same string.
func (r *Reader) Name() string {
	view := r.View()
	if len(view) == 0 {
		return ""
	}
	if len(view) > maxName {
		return string(view)
	}
	if string(view) == r.name {
		return r.name
	}
	name, ok := r.names[string(view)]
	if !ok {
		if len(r.names) >= maxNames {
			clear(r.names)
		}
		name = string(view)
		r.names[name] = name
	}
	r.name = name
	return name
}

// Bytes reads a bin. It returns nil for nil.
func (r *Reader) Bytes() []byte {
	view := r.View()
	if view == nil {
		return nil
	}
	return append(make([]byte, 0, len(view)), view...)
}

// Skip reads any value and returns its bytes, as a part of the slice.
func (r *Reader) Skip() []byte {
	if r.err != nil {
		return nil
	}
	begin := r.off
	rest, err := skip(r.data[begin:], 1, false, 0, new(extensions))
	if err != nil {
		r.fail(begin, err)
		return nil
	}
	r.off = len(r.data) - len(rest)
	return r.data[begin:r.off:r.off]
}

// Discard reads n values of any type.
func (r *Reader) Discard(n int) {
	if r.err != nil {
		return
	}
	rest, err := skip(r.data[r.off:], n, false, 0, new(extensions))
	if err != nil {
		r.fail(r.off, err)
		return
	}
	r.off = len(r.data) - len(rest)
}

// Any reads any value: nil, bool, int64, uint64 for larger numbers, float64, string, []byte,
// time.Time in UTC, []any, or map[string]any, in which keys that are not strings become their JSON.
// A value encoded as JSON becomes the value of that JSON. Any other extension becomes a map with
// the keys "ext" and "data".
func (r *Reader) Any() any {
	data := r.Skip()
	if data == nil {
		return nil
	}
	v, _ := (&walk{data}).tree(anyLeaf)
	return v
}

func anyLeaf(h head, _ byte) (any, error) {
	switch h.kind {
	case kindBytes:
		return append([]byte{}, h.body...), nil
	case kindExt:
		if at, ok := h.time(); ok {
			return at.UTC(), nil
		}
		if h.isJSON() {
			if v, err := fromJSON(h.body); err == nil {
				return v, nil
			}
		}
		return map[string]any{"ext": int64(h.ext), "data": append([]byte{}, h.body...)}, nil
	}
	return h.scalar(), nil
}
