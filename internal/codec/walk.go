package codec

import "math"

// A walk visits a well-formed value of unknown type, one head after another. The head of an array
// or a map comes before its elements.
type walk struct{ data []byte } // the remaining bytes

// next returns the next head.
func (w *walk) next() (h head) {
	n, _ := h.read(w.data)
	w.data = w.data[n:]
	return h
}

// since returns the bytes that were read since w.data was equal to before.
func (w *walk) since(before []byte) []byte { return before[:len(before)-len(w.data)] }

// key reads a map key and returns its text in JSON.
func (w *walk) key() string {
	before := *w
	if h := w.next(); h.kind == kindString {
		return string(h.body)
	}
	r := rendering{walk: before, end: math.MaxInt}
	key := r.key()
	*w = r.walk
	return string(key)
}

// tree reads a value. An array becomes a []any, and a map becomes a map[string]any. Anything else
// becomes what leaf returns for its head and first byte.
func (w *walk) tree(leaf func(h head, first byte) (any, error)) (v any, err error) {
	before := w.data
	h := w.next()
	switch h.kind {
	case kindArray:
		list := make([]any, h.n)
		for i := range list {
			if list[i], err = w.tree(leaf); err != nil {
				return nil, prefixMismatch(elementPath("", i), err)
			}
		}
		return list, nil
	case kindMap:
		m := make(map[string]any, min(h.n, maxRoom))
		for range h.n {
			key := w.key()
			if m[key], err = w.tree(leaf); err != nil {
				return nil, prefixMismatch(key, err)
			}
		}
		return m, nil
	}
	return leaf(h, before[0])
}

// scalar returns a bool, a number or a string. It returns nil for anything else.
func (h head) scalar() any {
	switch h.kind {
	case kindBool:
		return h.bool()
	case kindInt:
		return h.int()
	case kindUint:
		return h.bits
	case kindFloat:
		return h.float()
	case kindString:
		return string(h.body)
	}
	return nil
}
