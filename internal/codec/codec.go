package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// Encode returns v as msgpack. Struct fields go by their json names. A value
// that cannot be encoded is an *[UnsupportedError] that names the path to it.
func Encode(v any) ([]byte, error) {
	if err := checkDepth(v); err != nil {
		return nil, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	e := encoders.Get().(*encoder)
	e.buf.Reset()
	e.enc.Reset(&e.buf)
	e.enc.SetCustomStructTag("json")
	e.enc.UseCompactInts(true)
	if err := encode(e.enc, v); err != nil { // it is not used again: nobody knows what a panic has left of it
		if path, t := unsupported(reflect.ValueOf(v)); t != nil {
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

// encoder is one of the library with what it writes to.
type encoder struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
}

// maxPooled is the size of the largest buffer that is kept for the next value.
const maxPooled = 64 << 10

var encoders = sync.Pool{New: func() any { return &encoder{enc: msgpack.NewEncoder(nil)} }}

// encode keeps a panic of the library, or of a user's MarshalText, an error.
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
func Decode(data []byte, v any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("codec: decode into %T: panic: %v", v, p)
		}
	}()
	// The library allocates what a length promises; a walk first makes sure
	// that the bytes are there.
	if rest, err := Skip(data); err != nil {
		return err
	} else if len(rest) > 0 {
		return fmt.Errorf("codec: %d bytes after the value", len(rest))
	}
	d := decoders.Get().(*decoder)
	d.data.Reset(data)
	d.dec.Reset(&d.data)
	d.dec.SetCustomStructTag("json")
	d.dec.UseLooseInterfaceDecoding(true)
	if err := d.dec.Decode(v); err != nil {
		return fmt.Errorf("codec: decode into %T: %w", v, err)
	}
	d.data.Reset(nil)
	if len(data) <= maxPooled { // its buffer is as large as the largest text
		decoders.Put(d)
	}
	return nil
}

// decoder is one of the library with what it reads.
type decoder struct {
	data bytes.Reader
	dec  *msgpack.Decoder
}

var decoders = sync.Pool{New: func() any { return &decoder{dec: msgpack.NewDecoder(bytes.NewReader(nil))} }}

// UnsupportedError is a value that has no encoding.
type UnsupportedError struct {
	Path string       // such as ".Items[2].Done"; empty for the value itself
	Type reflect.Type // what was found there
}

// Error names the path and the type.
func (e *UnsupportedError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("codec: a %s cannot be encoded", e.Type)
	}
	return fmt.Sprintf("codec: field %s: a %s cannot be encoded", e.Path, e.Type)
}

// ErrMalformed is the kind of every error about bytes that are no msgpack.
var ErrMalformed = errors.New("malformed msgpack")
