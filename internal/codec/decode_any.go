package codec

import "fmt"

// decodeUntyped decodes a value to a type that an interface can hold: nil, bool, int64, uint64 for
// a number encoded as unsigned, float64, string, time.Time, []any, or map[string]any, in which each
// key is the JSON text of the original key. Bytes become a string. A value encoded as JSON becomes
// the value of that JSON.
func decodeUntyped(data []byte) (v any, rest []byte, err error) {
	w := walk{data}
	v, err = w.tree(untypedLeaf)
	return v, w.data, err
}

func untypedLeaf(h head, first byte) (any, error) {
	switch h.kind {
	case kindInt:
		if codes[first].kind == kindUint {
			return h.bits, nil
		}
	case kindBytes:
		return string(h.body), nil
	case kindExt:
		if t, ok := h.time(); ok {
			return t, nil
		}
		if h.isJSON() {
			return fromJSON(h.body)
		}
		return nil, fmt.Errorf("unknown extension %d", h.ext)
	}
	return h.scalar(), nil
}

// decodeAnyMap decodes n pairs into a map with string keys.
func decodeAnyMap(data []byte, m map[string]any, n int) (rest []byte, err error) {
	for range n {
		h, value, _ := next(data)
		if h.kind != kindString && h.kind != kindBytes && h.kind != kindNil {
			return nil, prefixMismatch(decodeKey(data), &mismatch{got: h.describe(), want: stringType})
		}
		key := string(h.body)
		if m[key], data, err = decodeUntyped(value); err != nil {
			return nil, prefixMismatch(key, err)
		}
	}
	return data, nil
}

// decodeKey decodes a map key to its text in JSON.
func decodeKey(data []byte) string { return (&walk{data}).key() }
