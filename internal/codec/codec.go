package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Encode returns v as msgpack. Struct fields go by their json names. A value
// that cannot be encoded is an *[UnsupportedError] that names the path to it.
func Encode(v any) ([]byte, error) { return encode(v, encoder{}) }

// EncodeIdentity is Encode without the struct fields that are zero: a field that
// a type gains changes nothing for values that do not set it. A value that may
// hold anything has the identity of what it is decoded to, where structs are maps.
func EncodeIdentity(v any) ([]byte, error) { return encodeIdentity(v, encoder{}) }

// EncodeIdentityOfAny is EncodeIdentity for a v of which nobody knows the type,
// once it is decoded.
func EncodeIdentityOfAny(v any) ([]byte, error) { return encodeIdentity(v, encoder{untyped: true}) }

// EncodeBefore is Encode as it was before some values were kept as JSON, and
// times with their offset. What was recorded then has hashes of that.
func EncodeBefore(v any) ([]byte, error) { return encode(v, encoder{old: true}) }

// EncodeIdentityBefore is to EncodeIdentity what EncodeBefore is to Encode.
func EncodeIdentityBefore(v any) ([]byte, error) { return encodeIdentity(v, encoder{old: true}) }

func encodeIdentity(v any, how encoder) ([]byte, error) {
	how.omitsZero = true
	data, err := encode(v, how)
	if err != nil || v == nil || !isOpen(reflect.TypeOf(v)) {
		return data, err
	}
	data = appendUntyped(make([]byte, 0, len(data)), data)
	return data, nil
}

func encode(v any, how encoder) ([]byte, error) {
	e := encoders.Get().(*encoder)
	how.w.out = e.w.out[:0]
	*e = how
	err := safely(func() error { return e.any(v) })
	switch problem := err.(type) { //nolint:errorlint // an error of the encoder itself, not one in that of a method
	case nil:
	case *UnsupportedError:
		return nil, problem
	default:
		return nil, fmt.Errorf("codec: encode %T: %w", v, err)
	}
	if cap(e.w.out) > maxPooled {
		return slices.Clip(e.w.out), nil
	}
	data := bytes.Clone(e.w.out)
	encoders.Put(e)
	return data, nil
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
	// Decoders rely on it, and allocate as much as a length says.
	if err := skipAll(data); err != nil {
		return err
	}
	into := reflect.ValueOf(v)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		return fmt.Errorf("codec: decode into %T: want a pointer that is not nil", v)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		if err != nil {
			err = fmt.Errorf("codec: decode into %T: %w", v, err)
		}
	}()
	into = into.Elem()
	d := &lenient
	if known {
		d = &strict
	}
	_, err = decodeFuncOf(into.Type())(d, data, into)
	return err
}

var lenient, strict = decoder{}, decoder{known: true}
