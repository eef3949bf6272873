package codec

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Canonical rewrites the msgpack value of data so that equal values are equal
// bytes: the pairs of every map, also nested ones, in the order of their
// encoded keys, times of one instant in UTC, and the members of JSON in the order
// of their names. Canonical works in place if it can.
func Canonical(data []byte) ([]byte, error) {
	_, extended, err := scan(data)
	if err != nil {
		return nil, err
	}
	if extended {
		data, _ = appendPlain(make([]byte, 0, len(data)), data)
	}
	canonical(data)
	return data, nil
}

// appendPlain appends the first value of data, which must be well formed, with
// equal extensions for equal values, and returns what follows it.
func appendPlain(dst, data []byte) (out, rest []byte) {
	h, rest, _ := next(data)
	inner := h.values()
	w := NewWriter(dst)
	switch t, ok := h.time(); {
	case ok:
		w.timestamp(t)
	case h.isJSON():
		w.json(canonicalJSON(h.body))
	default:
		w.Raw(data[:len(data)-len(rest)])
	}
	dst = w.Finish()
	for range inner {
		dst, rest = appendPlain(dst, rest)
	}
	return dst, rest
}

// canonicalJSON returns the JSON with sorted members. Numbers keep their digits.
func canonicalJSON(text []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return text
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return sorted
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
