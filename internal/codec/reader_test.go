package codec_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/reprise-go/reprise/internal/codec"
)

func TestReaderReadsWhatWriterWrote(t *testing.T) {
	w := codec.NewWriter([]byte("kept"))
	w.Array(2)
	w.Map(1)
	w.Nil()
	w.Bool(true)
	w.Int(math.MinInt64)
	w.Uint(math.MaxUint64)
	w.Float(1.5)
	w.Text("größe")
	w.Text("name")
	w.Text("name")
	w.Bytes([]byte{1, 2})
	w.Bytes(nil)
	w.Bytes([]byte{})
	w.Raw([]byte{7})
	data := w.Finish()
	assert.Equal(t, "kept", string(data[:4]))

	r := codec.NewReader(data[4:])
	defer r.Release()
	assert.Equal(t, 2, r.Array())
	assert.Equal(t, 1, r.Map())
	assert.True(t, r.Nil())
	assert.False(t, r.Nil())
	assert.True(t, r.Bool())
	assert.Equal(t, int64(math.MinInt64), r.Int())
	assert.Equal(t, uint64(math.MaxUint64), r.Uint())
	assert.InDelta(t, 1.5, r.Float(), 0)
	assert.Equal(t, "größe", r.Text())
	name := r.Name()
	assert.Equal(t, name, r.Name())
	assert.Equal(t, []byte{1, 2}, r.Bytes())
	assert.Nil(t, r.Bytes())
	assert.Equal(t, []byte{}, r.Bytes())
	assert.Equal(t, []byte{7}, r.Skip())
	require.NoError(t, r.Err())
	assert.Zero(t, r.Len())
	assert.Equal(t, len(data)-4, r.Offset())
}

func TestTextOfAnyLengthIsAppendedInPlace(t *testing.T) {
	for _, n := range []int{0, 1, 31, 32, 255, 256, 65535, 65536} {
		text := strings.Repeat("x", n)
		w := codec.NewWriter([]byte("kept"))
		w.EndText(append(w.BeginText(), text...))
		w.Int(1)
		data := w.Finish()
		r := codec.NewReader(data[4:])
		assert.Equal(t, text, r.Text())
		assert.Equal(t, int64(1), r.Int())
		assert.NoError(t, r.Err())
		r.Release()
	}
}

// The writer writes the same bytes as the library in its compact form.
func TestWriterWritesTheShortestForm(t *testing.T) {
	var out bytes.Buffer
	library := msgpack.NewEncoder(&out)
	for _, exponent := range []uint{0, 4, 5, 7, 8, 15, 16, 31, 32, 62, 63} {
		for _, off := range []int64{-2, -1, 0, 1} {
			n := int64(1)<<exponent + off
			w := codec.NewWriter(nil)
			w.Int(n)
			w.Int(-n)
			w.Uint(uint64(n))
			out.Reset()
			require.NoError(t, library.EncodeInt(n))
			require.NoError(t, library.EncodeInt(-n))
			require.NoError(t, library.EncodeUint(uint64(n)))
			require.Equal(t, out.Bytes(), w.Finish(), "%d", n)
		}
	}
	for _, n := range []int{0, 1, 15, 16, 31, 32, 255, 256, 65535, 65536} {
		text := strings.Repeat("x", n)
		w := codec.NewWriter(nil)
		w.Array(n)
		w.Map(n)
		w.Text(text)
		w.Bytes([]byte(text))
		w.Float(float64(n))
		w.Bool(n > 0)
		w.Nil()
		out.Reset()
		require.NoError(t, library.EncodeArrayLen(n))
		require.NoError(t, library.EncodeMapLen(n))
		require.NoError(t, library.EncodeString(text))
		require.NoError(t, library.EncodeBytes([]byte(text)))
		require.NoError(t, library.EncodeFloat64(float64(n)))
		require.NoError(t, library.EncodeBool(n > 0))
		require.NoError(t, library.EncodeNil())
		require.Equal(t, out.Bytes(), w.Finish(), "%d", n)
	}
}

func TestFirstErrorOfAReaderStays(t *testing.T) {
	r := codec.NewReader([]byte{1, 0xa3, 'a', 'b', 'c', 5})
	defer r.Release()
	assert.Equal(t, int64(1), r.Int())
	assert.Zero(t, r.Int(), "a str is not an integer")
	first := r.Err()
	assert.ErrorIs(t, first, codec.ErrMalformed)
	assert.EqualError(t, first, "byte 1: malformed msgpack: got a string, want an integer")
	assert.Zero(t, r.Uint())
	assert.Empty(t, r.Text())
	assert.Nil(t, r.Skip())
	assert.Nil(t, r.Any())
	assert.Zero(t, r.Array())
	assert.False(t, r.Bool())
	r.Fail(0, errors.New("later"))
	assert.Equal(t, first, r.Err())
}

func TestReaderRefusesLengthsBeyondItsBytes(t *testing.T) {
	for name, test := range map[string]struct {
		data []byte
		read func(*codec.Reader)
	}{
		"str":   {[]byte{0xdb, 0xff, 0xff, 0xff, 0xff, 'a'}, func(r *codec.Reader) { r.Text() }},
		"bin":   {[]byte{0xc6, 0xff, 0xff, 0xff, 0xff, 'a'}, func(r *codec.Reader) { r.Bytes() }},
		"array": {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1}, func(r *codec.Reader) { r.Array() }},
		"map":   {[]byte{0xdf, 0, 0, 0, 2, 1, 1, 1}, func(r *codec.Reader) { r.Map() }},
		"any":   {[]byte{0xdd, 0xff, 0xff, 0xff, 0xff, 1}, func(r *codec.Reader) { r.Any() }},
	} {
		t.Run(name, func(t *testing.T) {
			r := codec.NewReader(test.data)
			defer r.Release()
			test.read(r)
			assert.ErrorIs(t, r.Err(), codec.ErrMalformed)
			assert.ErrorContains(t, r.Err(), "byte 0: ")
		})
	}
}

func TestUintIsNeverNegative(t *testing.T) {
	for _, data := range [][]byte{{0xff}, {0xd0, 0x80}, {0xd3, 0x80, 0, 0, 0, 0, 0, 0, 0}} {
		r := codec.NewReader(data)
		assert.Zero(t, r.Uint())
		assert.ErrorContains(t, r.Err(), "is negative")
		r.Release()
	}
	r := codec.NewReader([]byte{0xd0, 0x05})
	defer r.Release()
	assert.Equal(t, uint64(5), r.Uint())
}

func TestAnyReadsWhatEncodeAnyWrote(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 0, 0, 5, time.UTC)
	selfish := []any{nil}
	selfish[0] = selfish
	for name, test := range map[string]struct{ value, want any }{
		"nil":        {nil, nil},
		"bool":       {true, true},
		"int":        {-7, int64(-7)},
		"uint":       {uint64(math.MaxUint64), uint64(math.MaxUint64)},
		"float":      {float32(0.5), 0.5},
		"text":       {"x", "x"},
		"bytes":      {[]byte{1}, []byte{1}},
		"time":       {at, at},
		"list":       {[]any{1, []string{"a"}}, []any{int64(1), []any{"a"}}},
		"map":        {map[int]any{1: map[string]int{"b": 2}}, map[string]any{"1": map[string]any{"b": int64(2)}}},
		"error":      {errors.New("boom"), "boom"},
		"unencoded":  {complex(1, 2), "(1+2i)"},
		"endless":    {selfish, "([]interface {}, nested too deeply)"},
		"nil error":  {error(nil), nil},
		"bad method": {panics{}, "{}"},
	} {
		t.Run(name, func(t *testing.T) {
			r := codec.NewReader(codec.EncodeAny(test.value))
			defer r.Release()
			assert.Equal(t, test.want, r.Any())
			assert.NoError(t, r.Err())
			assert.Zero(t, r.Len())
		})
	}
}

func TestAnyKeepsExtensionsThatItDoesNotKnow(t *testing.T) {
	r := codec.NewReader([]byte{0xd4, 5, 9})
	defer r.Release()
	assert.Equal(t, map[string]any{"ext": int64(5), "data": []byte{9}}, r.Any())
}

// The reader is compared with the library for every first byte, both with complete values and with
// values that are cut off at any point.
func TestReaderReadsEveryFormAsTheLibraryDoes(t *testing.T) {
	following := [][]byte{
		{0, 0, 0, 0, 0, 0, 0, 0, 0},
		{0, 1, 0, 2, 0, 3, 0, 4, 0, 5},
		{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		append([]byte{40}, strings.Repeat("x", 300)...),
	}
	for first := range 256 {
		float := first == 0xca || first == 0xcb // the library reads floats as integers
		for _, rest := range following {
			for _, n := range []int{0, 1, 2, 3, 4, 7, 8, 9, 40, len(rest)} {
				data := append([]byte{byte(first)}, rest[:min(n, len(rest))]...)
				large := first == 0xcf && rest[0] == 0xff // above the largest int64; the library wraps it
				if !float && !large {
					requireAsLibrary(t, data, (*codec.Reader).Int, (*msgpack.Decoder).DecodeInt64)
				}
				if !float && first < 0xd0 { // the library accepts negative numbers
					requireAsLibrary(t, data, (*codec.Reader).Uint, (*msgpack.Decoder).DecodeUint64)
				}
				if !large {
					requireAsLibrary(t, data, func(r *codec.Reader) float64 { return zeroNaN(r.Float()) }, func(d *msgpack.Decoder) (float64, error) {
						f, err := d.DecodeFloat64()
						return zeroNaN(f), err
					})
				}
				requireAsLibrary(t, data, (*codec.Reader).Bool, (*msgpack.Decoder).DecodeBool)
				if first != 0xc6 && first != 0xdb { // the library would allocate four gigabytes
					requireAsLibrary(t, data, (*codec.Reader).Text, (*msgpack.Decoder).DecodeString)
					requireAsLibrary(t, data, (*codec.Reader).Bytes, (*msgpack.Decoder).DecodeBytes)
				}
				requireAsLibrary(t, data, (*codec.Reader).Array, lengthWithin(len(data), (*msgpack.Decoder).DecodeArrayLen, 1))
				requireAsLibrary(t, data, (*codec.Reader).Map, lengthWithin(len(data), (*msgpack.Decoder).DecodeMapLen, 2))
			}
		}
	}
}

func zeroNaN(f float64) float64 {
	if math.IsNaN(f) {
		return 0
	}
	return f
}

// lengthWithin returns a function that reads a length with the library, and returns an error if the
// length exceeds the remaining bytes. The library accepts a map as an array and an array as a map.
func lengthWithin(size int, read func(*msgpack.Decoder) (int, error), width int) func(*msgpack.Decoder) (int, error) {
	return func(d *msgpack.Decoder) (int, error) {
		n, err := read(d)
		left := d.Buffered().(*bytes.Reader).Len()
		if n > left/width {
			err = fmt.Errorf("a length of %d with %d of %d bytes left", n, left, size)
		}
		return max(n, 0), err
	}
}

func requireAsLibrary[T any](t *testing.T, data []byte, read func(*codec.Reader) T, library func(*msgpack.Decoder) (T, error)) {
	t.Helper()
	r, other := codec.NewReader(data), bytes.NewReader(data)
	defer r.Release()
	got := read(r)
	want, err := library(msgpack.NewDecoder(other))
	if err != nil {
		require.Error(t, r.Err(), "% x", data)
		return
	}
	require.NoError(t, r.Err(), "% x", data)
	require.Equal(t, want, got, "% x", data)
	require.Equal(t, len(data)-other.Len(), r.Offset(), "% x", data)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte{0x92, 1, 0xa1, 'x'}, []byte{0, 1, 2, 3})
	f.Add([]byte{0x81, 0xa1, 'x', 0xc4, 1, 1}, []byte{1, 4, 5})
	f.Fuzz(func(t *testing.T, data, script []byte) {
		r := codec.NewReader(data)
		defer r.Release()
		for _, step := range script {
			before := r.Offset()
			[]func(){
				func() { r.Array() },
				func() { r.Map() },
				func() { r.Int() },
				func() { r.Uint() },
				func() { r.Text() },
				func() { r.Bytes() },
				func() { r.Any() },
				func() { r.Skip() },
				func() { r.Nil() },
				func() { r.Bool() },
				func() { r.Float() },
				func() { r.Name() },
			}[step%12]()
			if r.Offset() < before || r.Offset() > len(data) || r.Len() < 0 {
				t.Fatalf("from byte %d to %d of %d", before, r.Offset(), len(data))
			}
		}
	})
}
