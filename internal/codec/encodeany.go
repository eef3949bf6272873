package codec

import (
	"errors"
	"fmt"
)

// EncodeAny returns v as canonical msgpack. An error, a value without an encoding, or an endlessly
// nested value is replaced by its text, because EncodeAny is for display, where an approximation is
// better than nothing.
func EncodeAny(v any) []byte {
	if err, ok := v.(error); ok {
		return textOf(fmt.Sprint(err)) // most errors have unexported fields
	}
	data, err := Encode(v)
	if err == nil {
		data, err = Canonical(data)
	}
	switch {
	case errors.Is(err, ErrTooDeep):
		return textOf(fmt.Sprintf("(%T, nested too deeply)", v)) // printing the value would not end, either
	case err != nil:
		return textOf(fmt.Sprint(v))
	}
	return data
}

func textOf(s string) []byte {
	w := NewWriter(nil)
	w.Text(s)
	return w.Finish()
}
