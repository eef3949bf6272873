package codec

// What is decoded into an interface has lost its type: a struct is a map with
// strings for keys, bytes are a string, and every number with a fraction has 64
// bits.

// appendUntyped appends the first value of data as it would be encoded again
// after it was decoded into an interface, and without what is zero in maps, where
// the fields of structs were left out. Data must be well formed.
func appendUntyped(dst, data []byte) []byte {
	u := untyping{walk{data}, Writer{dst}}
	u.value()
	return u.out
}

type untyping struct {
	walk
	Writer
}

func (u *untyping) value() {
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

func (u *untyping) pairs(n int) {
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

// isOmitted reports whether a field of a struct that has this value is left out.
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
