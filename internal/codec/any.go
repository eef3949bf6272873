package codec

import (
	"errors"
	"fmt"
)

// decodeAny returns the first value of data, which Skip has found whole, and
// what follows it.
func decodeAny(data []byte) (v any, rest []byte) {
	t, rest, _ := next(data)
	switch t.kind {
	case kindNil:
		return nil, rest
	case kindBool:
		return t.i != 0, rest
	case kindInt:
		return t.i, rest
	case kindUint:
		return t.u, rest
	case kindFloat:
		return t.f, rest
	case kindString:
		return string(t.body), rest
	case kindBytes:
		return append([]byte{}, t.body...), rest
	case kindExt:
		if at, ok := timestamp(t); ok {
			return at.UTC(), rest
		}
		return map[string]any{"ext": int64(t.ext), "data": append([]byte{}, t.body...)}, rest
	case kindArray:
		list := make([]any, t.n)
		for i := range list {
			list[i], rest = decodeAny(rest)
		}
		return list, rest
	}
	m := make(map[string]any, t.n)
	for range t.n {
		var key string
		key, rest = decodeKey(rest)
		m[key], rest = decodeAny(rest)
	}
	return m, rest
}

func decodeKey(data []byte) (key string, rest []byte) {
	t, rest, _ := next(data)
	if t.kind == kindString {
		return string(t.body), rest
	}
	text, rest := appendJSON(nil, data, int(^uint(0)>>1), &rendering{bytes: appendBase64})
	return string(text), rest
}

// EncodeAny returns v as canonical msgpack. An error, a value that has no
// encoding, and one that is nested without end become their text: it is for
// what is told to people, where something is better than nothing.
func EncodeAny(v any) []byte {
	if err, ok := v.(error); ok {
		return textOf(fmt.Sprint(err)) // its fields are mostly not exported
	}
	data, err := Encode(v)
	if err == nil {
		data, err = Canonical(data)
	}
	switch {
	case errors.Is(err, ErrTooDeep):
		return textOf(fmt.Sprintf("(%T, nested too deeply)", v)) // printing it would not end either
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
