package codec

// What is decoded into an interface has lost its type: a struct is a map with
// texts for keys, bytes are a string, and every number with a fraction has 64
// bits.

// appendUntyped appends the first value of data as it would be encoded again
// after it was decoded into an interface, and without what is zero in maps, where
// the fields of structs were left out. Data must be well formed. It returns what
// follows the value.
func appendUntyped(dst, data []byte) (out, rest []byte) {
	h, rest, _ := next(data)
	w := NewWriter(dst)
	switch h.kind {
	case kindBytes:
		w.Text(string(h.body))
	case kindFloat:
		w.Float(h.float())
	case kindArray:
		w.Array(h.n)
		out = w.Finish()
		for range h.n {
			out, rest = appendUntyped(out, rest)
		}
		return out, rest
	case kindMap:
		var pairs []byte
		n := 0
		for range h.n {
			key, value := decodeKey(rest)
			begin := len(pairs)
			w := NewWriter(pairs)
			w.Text(key)
			at := len(w.Finish())
			pairs, rest = appendUntyped(w.Finish(), value)
			if isOmitted(pairs[at:]) {
				pairs = pairs[:begin]
			} else {
				n++
			}
		}
		w.Map(n)
		w.Raw(pairs)
	default:
		w.Raw(data[:len(data)-len(rest)])
	}
	return w.Finish(), rest
}

// isOmitted reports whether a value is one that a struct's field is left out for.
func isOmitted(data []byte) bool {
	h, _, _ := next(data)
	switch h.kind {
	case kindExt:
		t, ok := h.time()
		return ok && t.IsZero()
	case kindFloat:
		return h.float() == 0
	case kindString, kindArray, kindMap:
		return len(h.body) == 0 && h.n == 0
	}
	return h.bits == 0
}
