package codec

import (
	"fmt"
	"io"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Encoder is the library's. Types with a wire form of their own implement its
// interface with it, EncodeMsgpack(*Encoder) error, and get a [Writer] by
// [WriterOf].
type Encoder = msgpack.Encoder

// Decoder is the library's, for DecodeMsgpack(*Decoder) error and [ReaderOf].
type Decoder = msgpack.Decoder

// A Writer appends values to a slice. Nothing that it writes can fail, so its
// methods return no errors. It is for one goroutine.
type Writer struct {
	enc *Encoder
	out []byte
}

var writers = sync.Pool{New: func() any {
	w := new(Writer)
	w.enc = msgpack.NewEncoder(w)
	return w
}}

// NewWriter takes a Writer that appends to dst from the pool. Finish gives it
// back.
func NewWriter(dst []byte) *Writer {
	w := writers.Get().(*Writer)
	w.out = dst
	w.enc.Reset(w) // ResetWriter would keep the flags that were set
	return w
}

// WriterOf returns the Writer that enc belongs to.
func WriterOf(enc *Encoder) *Writer { return enc.Writer().(*Writer) }

// Encoder is the library's encoder, onto w.
func (w *Writer) Encoder() *Encoder { return w.enc }

// Finish returns the slice with everything appended. The Writer must not be
// used again.
func (w *Writer) Finish() []byte {
	out := w.out
	w.out = nil
	writers.Put(w)
	return out
}

// Write implements io.Writer for the encoder.
func (w *Writer) Write(p []byte) (int, error) {
	w.out = append(w.out, p...)
	return len(p), nil
}

// WriteByte implements io.ByteWriter for the encoder.
func (w *Writer) WriteByte(c byte) error {
	w.out = append(w.out, c)
	return nil
}

// Array begins an array of n values.
func (w *Writer) Array(n int) { _ = w.enc.EncodeArrayLen(n) }

// Map begins a map of n pairs.
func (w *Writer) Map(n int) { _ = w.enc.EncodeMapLen(n) }

// Nil writes nil.
func (w *Writer) Nil() { _ = w.enc.EncodeNil() }

// Bool writes b.
func (w *Writer) Bool(b bool) { _ = w.enc.EncodeBool(b) }

// Int writes n in as few bytes as it takes.
func (w *Writer) Int(n int64) { _ = w.enc.EncodeInt(n) }

// Uint writes n in as few bytes as it takes.
func (w *Writer) Uint(n uint64) { _ = w.enc.EncodeUint(n) }

// Float writes f as 64 bits.
func (w *Writer) Float(f float64) { _ = w.enc.EncodeFloat64(f) }

// Text writes s as a str.
func (w *Writer) Text(s string) { _ = w.enc.EncodeString(s) }

// Bytes writes b as a bin, and nil as nil.
func (w *Writer) Bytes(b []byte) { _ = w.enc.EncodeBytes(b) }

// Raw writes data, which is msgpack already.
func (w *Writer) Raw(data []byte) { w.out = append(w.out, data...) }

// BeginText begins a str that is appended to the slice that it returns. What
// became of that goes to EndText, and nothing is written in between.
func (w *Writer) BeginText() []byte {
	w.out = append(w.out, 0xd9, 0) // str 8, the shortest that may do
	return w.out
}

// EndText completes the str that was appended to what BeginText returned.
func (w *Writer) EndText(out []byte) {
	begin := len(w.out)
	if n := len(out) - begin; n < 256 {
		out[begin-1] = byte(n)
		w.out = out
	} else {
		w.out = w.out[:begin-2]
		w.Text(string(out[begin:]))
	}
}

// A Reader reads the values of a slice one by one. Its first error stays: all
// that it reads afterwards is zero, and Err tells. What it returns shares
// nothing with the slice, but for View. It never allocates what the slice is
// too short for. It is for one goroutine.
type Reader struct {
	dec   *Decoder
	data  []byte
	off   int
	err   error
	skim  bool
	names map[string]string // that were read lately
}

// maxNames bounds what a pooled Reader remembers, maxName how long it is.
const (
	maxNames = 256
	maxName  = 64
)

var readers = sync.Pool{New: func() any {
	r := &Reader{names: make(map[string]string)}
	r.dec = msgpack.NewDecoder(r)
	return r
}}

// NewReader takes a Reader of data from the pool. Release gives it back.
func NewReader(data []byte) *Reader {
	r := readers.Get().(*Reader)
	r.data, r.off, r.err, r.skim = data, 0, nil, false
	r.dec.Reset(r)
	return r
}

// ReaderOf returns the Reader that dec belongs to.
func ReaderOf(dec *Decoder) *Reader { return dec.Buffered().(*Reader) }

// Decoder is the library's decoder, of r.
func (r *Reader) Decoder() *Decoder { return r.dec }

// Release gives r back. It must not be used again.
func (r *Reader) Release() {
	r.data, r.err = nil, nil
	readers.Put(r)
}

// Read implements io.Reader for the decoder.
func (r *Reader) Read(p []byte) (int, error) {
	if r.off == len(r.data) && len(p) > 0 {
		return 0, io.EOF
	}
	n := copy(p, r.data[r.off:])
	r.off += n
	return n, nil
}

// ReadByte implements io.ByteScanner for the decoder.
func (r *Reader) ReadByte() (byte, error) {
	if r.off == len(r.data) {
		return 0, io.EOF
	}
	c := r.data[r.off]
	r.off++
	return c, nil
}

// UnreadByte implements io.ByteScanner for the decoder.
func (r *Reader) UnreadByte() error {
	r.off--
	return nil
}

// Err is the first error. It names the byte where what could not be read
// begins, and is [ErrMalformed].
func (r *Reader) Err() error { return r.err }

// Offset is how much was read.
func (r *Reader) Offset() int { return r.off }

// Len is how much is left.
func (r *Reader) Len() int { return len(r.data) - r.off }

// Rewind goes back to where Offset was before.
func (r *Reader) Rewind(offset int) { r.off = offset }

// Skim has Text, Name, Bytes and Any read as always and return nothing, for
// who wants to know whether they can.
func (r *Reader) Skim(on bool) { r.skim = on }

// Fail makes err the error, unless there is one: what was read at the byte
// begin is not what it must be.
func (r *Reader) Fail(begin int, err error) {
	if r.err == nil {
		r.err = fmt.Errorf("byte %d: %w: %w", begin, ErrMalformed, err)
	}
	r.off = len(r.data)
}

// value reads one value with a method of the library's decoder.
func value[T any](r *Reader, read func(*Decoder) (T, error)) (v T) {
	begin := r.off
	if r.err != nil {
		return v
	}
	v, err := read(r.dec)
	if err != nil {
		r.Fail(begin, err)
		var zero T
		return zero
	}
	return v
}

// Bool reads a bool.
func (r *Reader) Bool() bool {
	if b, ok := r.shortBool(); ok {
		return b
	}
	return value(r, (*Decoder).DecodeBool)
}

// Int reads an integer.
func (r *Reader) Int() int64 {
	if n, ok := r.shortInt(); ok {
		return n
	}
	return value(r, (*Decoder).DecodeInt64)
}

// Uint reads an integer that is not negative.
func (r *Reader) Uint() uint64 {
	begin := r.off
	if r.Len() > 0 && r.data[begin] < 0x80 {
		r.off++
		return uint64(r.data[begin])
	}
	if r.Len() > 0 && (r.data[begin] >= 0xe0 || r.data[begin] >= 0xd0 && r.data[begin] <= 0xd3) {
		if n := r.Int(); n < 0 {
			r.Fail(begin, fmt.Errorf("%d is negative", n))
		} else {
			return uint64(n)
		}
	}
	return value(r, (*Decoder).DecodeUint64)
}

// Float reads a number.
func (r *Reader) Float() float64 { return value(r, (*Decoder).DecodeFloat64) }

// Array begins an array and returns its length, 0 for nil.
func (r *Reader) Array() int {
	begin := r.off
	if n, ok := r.shortArray(); ok {
		return r.within(begin, n, 1)
	}
	return r.length((*Decoder).DecodeArrayLen, 1)
}

// Map begins a map and returns the number of its pairs, 0 for nil.
func (r *Reader) Map() int { return r.length((*Decoder).DecodeMapLen, 2) }

// length reads a length. Each of what it counts takes so many bytes at least.
func (r *Reader) length(read func(*Decoder) (int, error), bytes int) int {
	begin := r.off
	return r.within(begin, max(value(r, read), 0), bytes)
}

// within refuses a length, read at the byte begin, of more than there is.
func (r *Reader) within(begin, n, bytes int) int {
	if n > r.Len()/bytes {
		r.Fail(begin, fmt.Errorf("a length of %d with %d bytes left", n, r.Len()))
		return 0
	}
	return n
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
	if view, ok := r.shortView(); ok {
		return view
	}
	begin := r.off
	n := value(r, (*Decoder).DecodeBytesLen)
	if n < 0 || r.err != nil {
		return nil
	}
	if n > r.Len() {
		r.Fail(begin, fmt.Errorf("a length of %d with %d bytes left", n, r.Len()))
		return nil
	}
	r.off += n
	return r.data[r.off-n : r.off : r.off]
}

// Text reads a str.
func (r *Reader) Text() string {
	view := r.View()
	if r.skim {
		return ""
	}
	return string(view)
}

// Name reads a str that many values have in common, and returns the same
// string for them.
func (r *Reader) Name() string {
	view := r.View()
	if len(view) == 0 || r.skim {
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
	if view == nil || r.skim {
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
	rest, err := Skip(r.data[begin:])
	if err != nil {
		r.Fail(begin, err)
		return nil
	}
	r.off = len(r.data) - len(rest)
	return r.data[begin:r.off:r.off]
}

// Any reads any value: nil, bool, int64, uint64 above those, float64, string,
// []byte, time.Time in UTC, []any, or map[string]any, with other keys than
// strings as the JSON they would be. An extension that is no timestamp is a
// map of its "ext" and "data".
func (r *Reader) Any() any {
	data := r.Skip()
	if data == nil || r.skim {
		return nil
	}
	v, _ := decodeAny(data)
	return v
}
