package codec

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// Encode returns v as msgpack. Struct fields have their JSON names. If a value cannot be encoded,
// the error is an *[UnsupportedError] that contains the path to the value.
func Encode(v any) ([]byte, error) { return encode(v, encoder{}) }

// EncodeIdentity is like Encode but omits struct fields that are zero, so that a field added to a
// type changes nothing for values that do not set it. The identity of a value in an interface is
// that of its decoded form, in which structs are maps.
func EncodeIdentity(v any) ([]byte, error) { return encodeIdentity(v, encoder{}) }

// EncodeIdentityOfAny is like EncodeIdentity, but for a value that is stored as an any, so that its
// type is unknown when it is decoded.
func EncodeIdentityOfAny(v any) ([]byte, error) { return encodeIdentity(v, encoder{untyped: true}) }

// EncodeBefore is like Encode, but uses the old form, in which no values are encoded as JSON and
// times have no offset. Older records contain hashes of the old form.
func EncodeBefore(v any) ([]byte, error) { return encode(v, encoder{old: true}) }

// EncodeIdentityBefore is like EncodeIdentity, but uses the old form (see
// [EncodeBefore]).
func EncodeIdentityBefore(v any) ([]byte, error) { return encodeIdentity(v, encoder{old: true}) }

func encodeIdentity(v any, how encoder) ([]byte, error) {
	how.omitsZero = true
	data, err := encode(v, how)
	if err != nil || v == nil || !isUnbounded(reflect.TypeOf(v)) {
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
	switch problem := err.(type) { //nolint:errorlint // the encoder's own error, not one that a method returned
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

// Decode reads the msgpack in data into v, which must be a pointer. It is an error if bytes follow
// the value.
func Decode(data []byte, v any) error { return decode(data, v, false) }

// DecodeKnown is like Decode, but returns ErrUnknownField if data contains a struct field that the
// type of v lacks.
func DecodeKnown(data []byte, v any) error { return decode(data, v, true) }

// ErrUnknownField is wrapped by the error that DecodeKnown returns for an unknown field.
var ErrUnknownField = errors.New("unknown field")

func decode(data []byte, v any, known bool) (err error) {
	// The decoders below need complete data, because they allocate as much as a length in the data
	// requests.
	if err := skipAll(data); err != nil {
		return err
	}
	into := reflect.ValueOf(v)
	if into.Kind() != reflect.Pointer || into.IsNil() {
		return fmt.Errorf("codec: decode into %T: want a non-nil pointer", v)
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

var lenient, strict = decoder{}, decoder{refusesUnknown: true}
