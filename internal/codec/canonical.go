package codec

import (
	"bytes"
	"slices"
)

// Canonical rewrites the msgpack value of data so that equal values are equal
// bytes: the pairs of every map, also nested ones, in the order of their
// encoded keys. The msgpack library sorts three map types only. Canonical works
// in place and returns data.
func Canonical(data []byte) ([]byte, error) {
	if _, err := Skip(data); err != nil {
		return nil, err
	}
	canonical(data)
	return data, nil
}

// canonical sorts the first value of data, which must be well formed, in place
// and returns what follows it. Sorting pairs changes no length.
func canonical(data []byte) []byte {
	h, rest, _ := next(data)
	switch h.kind {
	case kindArray:
		for range h.n {
			rest = canonical(rest)
		}
	case kindMap:
		body := rest
		pairs := make([][]byte, h.n)
		sorted := true
		for i := range pairs {
			value := canonical(rest)
			after := canonical(value)
			pairs[i] = rest[:len(rest)-len(after)]
			sorted = sorted && (i == 0 || bytes.Compare(pairs[i-1], pairs[i]) <= 0)
			rest = after
		}
		if !sorted {
			sortPairs(body[:len(body)-len(rest)], pairs)
		}
	}
	return rest
}

// sortPairs writes the pairs, which are slices of body, back into it by key, and
// those of equal keys, of which a map with NaNs has several, by value.
func sortPairs(body []byte, pairs [][]byte) {
	slices.SortFunc(pairs, bytes.Compare)
	ordered := make([]byte, 0, len(body))
	for _, p := range pairs {
		ordered = append(ordered, p...)
	}
	copy(body, ordered)
}
