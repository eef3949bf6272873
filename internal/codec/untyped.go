package codec

// A value that is decoded into an interface loses its type: a struct becomes a
// map with string keys, bytes become a string, and every floating-point number
// has 64 bits.

// appendUntyped appends the first value in data in the form that it would have if it were decoded
// into an interface and encoded again. It omits zero values in maps, just as an identity omits zero
// struct fields. data must be well-formed.
func appendUntyped(dst, data []byte) []byte {
	u := untypedWriter{walk{data}, Writer{dst}}
	u.value()
	return u.out
}

type untypedWriter struct {
	walk
	Writer
}

func (u *untypedWriter) value() {
	before := u.data
	switch h := u.next(); h.kind {
	case kindBytes:
		u.Text(string(h.body))
	case kindFloat:
		u.Float(h.float())
	case kindArray:
		u.Array(h.n)
		for range h.n {
			u.value()
		}
	case kindMap:
		u.pairs(h.n)
	default:
		u.Raw(u.since(before))
	}
}

func (u *untypedWriter) pairs(n int) {
	begin, kept := len(u.out), 0
	u.out = append(u.out, 0) // for insertMap
	for range n {
		pair := len(u.out)
		u.Text(u.key())
		value := len(u.out)
		u.value()
		if isOmitted(u.out[value:]) {
			u.out = u.out[:pair]
		} else {
			kept++
		}
	}
	u.insertMap(begin, kept)
}

// isOmitted reports whether a struct field with this value is omitted.
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
