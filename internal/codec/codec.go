package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Encode returns v as msgpack. Struct fields go by their json names. A value
// that cannot be encoded is an *[UnsupportedError] that names the path to it.
func Encode(v any) ([]byte, error) { return encodeValue(v, false) }

// EncodeIdentity is Encode without the struct fields that are zero: a field that
// a type gains changes nothing for values that do not set it. A value that may
// hold anything has the identity of what it is decoded to, where structs are maps.
func EncodeIdentity(v any) ([]byte, error) {
	data, err := encodeValue(v, true)
	if err != nil || v == nil || !isOpen(reflect.TypeOf(v)) {
		return data, err
	}
	data, _ = appendUntyped(make([]byte, 0, len(data)), data)
	return data, nil
}

func encodeValue(v any, omitZero bool) ([]byte, error) {
	if err := checkDepth(v); err != nil {
		return nil, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	e := encoders.Get().(*encoder)
	e.buf.Reset()
	e.enc.Reset(&e.buf)
	e.enc.SetCustomStructTag("json")
	e.enc.UseCompactInts(true)
	e.enc.SetOmitEmpty(omitZero)
	if err := encode(e.enc, v); err != nil { // e is not pooled again: a panic may have left it in any state
		if path, t := findUnsupported(reflect.ValueOf(v), 0); t != nil {
			return nil, &UnsupportedError{Path: path, Type: t}
		}
		return nil, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	data := bytes.Clone(e.buf.Bytes())
	if e.buf.Cap() <= maxPooled {
		encoders.Put(e)
	}
	return data, nil
}

// encoder is the library's encoder with its buffer.
type encoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

// maxPooled is the size of the largest buffer that is pooled.
const maxPooled = 64 << 10

var encoders = sync.Pool{New: func() any { return &encoder{enc: msgpack.NewEncoder(nil)} }}

// encode turns a panic of the library, or of a user's MarshalText, into an error.
func encode(enc *msgpack.Encoder, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return enc.Encode(v)
}

// Decode reads the msgpack of data into v, a pointer. Bytes after the value
// are an error.
func Decode(data []byte, v any) error { return decode(data, v, false) }

// DecodeKnown is Decode, and fails with ErrUnknownField where data has a struct
// field that the type of v does not have.
func DecodeKnown(data []byte, v any) error { return decode(data, v, true) }

// ErrUnknownField is found in the error of DecodeKnown.
var ErrUnknownField = errors.New("unknown field")

func decode(data []byte, v any, known bool) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("codec: decode into %T: panic: %v", v, p)
		}
	}()
	// The library allocates as much as a length says, so check first that the
	// bytes are there.
	if err := skipAll(data); err != nil {
		return err
	}
	d := newDecoder(data, known)
	if err := d.dec.Decode(v); err != nil {
		if known && strings.Contains(err.Error(), "msgpack: unknown field") {
			return fmt.Errorf("codec: decode into %T: %w: %w", v, ErrUnknownField, err)
		}
		return fmt.Errorf("codec: decode into %T: %w", v, inWords(data, v, err))
	}
	if err := overflow(data, v); err != nil {
		return fmt.Errorf("codec: decode into %T: %w", v, err)
	}
	d.data.Reset(nil)
	if len(data) <= maxPooled { // its buffer is as large as the longest string
		decoders.Put(d)
	}
	return nil
}

// decoder is the library's decoder with its input.
type decoder struct {
	data bytes.Reader
	dec  *msgpack.Decoder
}

func newDecoder(data []byte, known bool) *decoder {
	d := decoders.Get().(*decoder)
	d.data.Reset(data)
	d.dec.Reset(&d.data)
	d.dec.SetCustomStructTag("json")
	d.dec.UseLooseInterfaceDecoding(true)
	d.dec.SetMapDecoder(decodeMap)
	d.dec.DisallowUnknownFields(known)
	return d
}

var decoders = sync.Pool{New: func() any { return &decoder{dec: msgpack.NewDecoder(bytes.NewReader(nil))} }}
