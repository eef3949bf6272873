package codec

import (
	"fmt"
	"math"
)

// untyped reads a value as an interface has it: nil, bool, int64, uint64 where a
// number was written without a sign in a byte or more, float64, string, time.Time,
// []any, or map[string]any, in which keys are the texts that JSON has for them.
// Bytes are a string, and a value that was kept as JSON is what the JSON is.
func (d *decoder) untyped(data []byte) (v any, rest []byte, err error) {
	h, rest, _ := next(data)
	switch h.kind {
	case kindNil:
		return nil, rest, nil
	case kindBool:
		return h.bool(), rest, nil
	case kindUint:
		return h.bits, rest, nil
	case kindInt:
		if codes[data[0]].kind == kindUint {
			return h.bits, rest, nil
		}
		return h.int(), rest, nil
	case kindFloat:
		return h.float(), rest, nil
	case kindString, kindBytes:
		return string(h.body), rest, nil
	case kindExt:
		v, err = d.untypedExt(h)
		return v, rest, err
	case kindArray:
		list := make([]any, h.n)
		for i := range list {
			if list[i], rest, err = d.untyped(rest); err != nil {
				return nil, nil, inside(elementPath("", i), err)
			}
		}
		return list, rest, nil
	}
	m := make(map[string]any, min(h.n, maxRoom))
	for range h.n {
		key, value := decodeKey(rest)
		if m[key], rest, err = d.untyped(value); err != nil {
			return nil, nil, inside(key, err)
		}
	}
	return m, rest, nil
}

func (d *decoder) untypedExt(h head) (any, error) {
	if t, ok := h.time(); ok {
		return t, nil
	}
	if h.isJSON() {
		return fromJSON(h.body)
	}
	return nil, fmt.Errorf("unknown extension %d", h.ext)
}

// anything reads n pairs into a map whose keys are strings.
func (d *decoder) anything(data []byte, m map[string]any, n int) (rest []byte, err error) {
	for range n {
		h, value, _ := next(data)
		if h.kind != kindString && h.kind != kindBytes && h.kind != kindNil {
			name, _ := decodeKey(data)
			return nil, inside(name, &mismatch{got: h.describe(), want: stringType})
		}
		key := string(h.body)
		if m[key], data, err = d.untyped(value); err != nil {
			return nil, inside(key, err)
		}
	}
	return data, nil
}

// decodeKey reads a key of a map as the text that JSON has for it.
func decodeKey(data []byte) (key string, rest []byte) {
	h, rest, _ := next(data)
	if h.kind == kindString {
		return string(h.body), rest
	}
	text, rest := appendJSON(nil, data, math.MaxInt, &rendering{bytes: appendBase64})
	return keyOf(text, h), rest
}
