package codec

import (
	"fmt"
	"iter"
	"sync"
)

// A Reader reads the msgpack values of a slice one by one. After its first
// error everything that it reads is zero, and Err returns that error. Only View
// and Skip return parts of the slice; everything else is a copy. It allocates no
// more than the slice has bytes for. nil is read as the zero value of anything.
// A Reader is not safe for concurrent use.
type Reader struct {
	data  []byte
	off   int
	err   error
	h     head              // read last
	names map[string]string // read lately
}

// maxNames is how many names a pooled Reader remembers, maxName how long they
// may be.
const (
	maxNames = 256
	maxName  = 64
)

var readers = sync.Pool{New: func() any { return &Reader{names: make(map[string]string)} }}

// NewReader takes a Reader of data from the pool. Release returns it.
func NewReader(data []byte) *Reader {
	r := readers.Get().(*Reader)
	r.data, r.off, r.err = data, 0, nil
	return r
}

// Release returns r to the pool. It must not be used again.
func (r *Reader) Release() {
	r.data, r.h, r.err = nil, head{}, nil
	readers.Put(r)
}

// Err returns the first error. It names the byte where what could not be read
// begins, and is [ErrMalformed].
func (r *Reader) Err() error { return r.err }

// Offset returns how many bytes were read.
func (r *Reader) Offset() int { return r.off }

// Len returns how many bytes are left.
func (r *Reader) Len() int { return len(r.data) - r.off }

// Rewind goes back to an Offset.
func (r *Reader) Rewind(offset int) { r.off = offset }

// Fail makes err the error of the value that begins at the byte, unless there
// is an error already.
func (r *Reader) Fail(begin int, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %w: %w", begin, ErrMalformed, err)
	}
	r.off = len(r.data)
}

// head reads one head, with the body of a string, bytes or an extension. After
// an error it is that of nil. It is valid until the next one is read.
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

// fail is Fail with an error that is ErrMalformed already.
func (r *Reader) fail(begin int, err error) {
	r.err = fmt.Errorf("byte %d: %w", begin, err)
	r.off = len(r.data)
}

// mismatch fails because of h, which begins at the byte.
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
	if begin < len(r.data) && r.data[begin] < 0x80 { // most of them are so small
		r.off++
		return int64(r.data[begin])
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

// Uint reads an integer that is not negative.
func (r *Reader) Uint() uint64 {
	begin := r.off
	if begin < len(r.data) && r.data[begin] < 0x80 { // most of them are so small
		r.off++
		return uint64(r.data[begin])
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

// Pairs reads a map and yields the key of each pair, a [Reader.Name]. The loop
// reads or skips the value. It ends at the first error.
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
	if of == kindArray && begin < len(r.data) && r.data[begin]&^0x0f == 0x90 {
		if n := int(r.data[begin] & 0x0f); n < len(r.data)-begin {
			r.off++
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

// Nil reads a nil if there is one.
func (r *Reader) Nil() bool {
	if r.Len() == 0 || r.data[r.off] != 0xc0 {
		return false
	}
	r.off++
	return true
}

// View reads a str or a bin, as a part of the slice; nil for nil.
func (r *Reader) View() []byte {
	begin := r.off
	if begin < len(r.data) { // most of them are short
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

// Name reads a str that many values have in common, and returns the same
// string for them.
func (r *Reader) Name() string {
	view := r.View()
	if len(view) == 0 {
		return ""
	}
	if len(view) > maxName {
		return string(view)
	}
	if name, ok := r.names[string(view)]; ok {
		return name
	}
	if len(r.names) >= maxNames {
		clear(r.names)
	}
	name := string(view)
	r.names[name] = name
	return name
}

// Bytes reads a bin; nil for nil.
func (r *Reader) Bytes() []byte {
	view := r.View()
	if view == nil {
		return nil
	}
	return append(make([]byte, 0, len(view)), view...)
}

// Skip reads any value and returns its bytes, a part of the slice.
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

// Any reads any value: nil, bool, int64, uint64 above those, float64, string,
// []byte, time.Time in UTC, []any, or map[string]any, with other keys than
// strings as the JSON they would be. A value that was kept as JSON is what the
// JSON is. Any other extension is a map of its "ext" and "data".
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
