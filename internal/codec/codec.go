package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"

	"github.com/vmihailenco/msgpack/v5"
)

// Encode returns v as msgpack. Struct fields go by their json names. A value
// that cannot be encoded is an *[UnsupportedError] that names the path to it.
func Encode(v any) ([]byte, error) {
	if err := checkDepth(v); err != nil {
		return nil, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	var buf bytes.Buffer
	enc := msgpack.NewEncoder(&buf)
	enc.SetCustomStructTag("json")
	enc.UseCompactInts(true)
	if err := encode(enc, v); err != nil {
		if path, t := unsupported(reflect.ValueOf(v)); t != nil {
			return nil, &UnsupportedError{Path: path, Type: t}
		}
		return nil, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	return buf.Bytes(), nil
}

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
	dec := msgpack.NewDecoder(bytes.NewReader(data))
	dec.SetCustomStructTag("json")
	dec.UseLooseInterfaceDecoding(true)
	if err := dec.Decode(v); err != nil {
		return fmt.Errorf("codec: decode into %T: %w", v, err)
	}
	return nil
}

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
