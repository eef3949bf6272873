package codec

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"slices"
)

// Hash returns the first 16 bytes of the SHA-256 of the canonical form of data. It may reorder the
// maps in data.
func Hash(data []byte) (hash [16]byte, err error) {
	if data, err = Canonical(data); err != nil {
		return hash, err
	}
	sum := sha256.Sum256(data)
	return [16]byte(sum[:16]), nil
}

// Canonical rewrites the msgpack value in data so that equal values have equal bytes: the pairs of
// every map are sorted by their encoded keys, times are in UTC, and the members of JSON objects are
// sorted by name. This includes nested values. Canonical works in place if it can.
func Canonical(data []byte) ([]byte, error) {
	if rest, n := skipFlat(data, 0, 1); n == 1 && len(rest) == 0 {
		return data, nil // there is nothing to sort
	}
	rest, found, err := scan(data)
	if err != nil {
		return nil, err
	}
	if found.times || found.json {
		data = canonicalExtensions(data[:len(data)-len(rest)])
	}
	w := walk{data}
	w.sort()
	return data, nil
}

// canonicalExtensions returns data with its times and JSON in canonical form, so that equal values
// have equal bytes.
func canonicalExtensions(data []byte) []byte {
	out := NewWriter(make([]byte, 0, len(data)))
	for w := (walk{data}); len(w.data) > 0; {
		before := w.data
		h := w.next()
		if t, ok := h.time(); ok {
			out.timestamp(t)
		} else if h.isJSON() {
			out.json(canonicalJSON(h.body))
		} else {
			out.Raw(w.since(before))
		}
	}
	return out.Finish()
}

// canonicalJSON returns the JSON with its members sorted. Numbers keep their digits.
func canonicalJSON(text []byte) []byte {
	v, err := parseJSON(text)
	if err != nil {
		return text
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return text
	}
	return sorted
}

// sort sorts the pairs of all maps in a value, in place. Sorting pairs does not change lengths.
func (w *walk) sort() {
	h := w.next()
	if h.kind != kindMap {
		for range h.values() {
			w.sort()
		}
		return
	}
	body := w.data
	pairs := make([][]byte, h.n)
	sorted := true
	for i := range pairs {
		before := w.data
		w.sort()
		w.sort()
		pairs[i] = w.since(before)
		sorted = sorted && (i == 0 || bytes.Compare(pairs[i-1], pairs[i]) <= 0)
	}
	if !sorted {
		sortPairs(w.since(body), pairs)
	}
}

// sortPairs writes the pairs, which are slices of body, back into body, sorted by key. A map with
// NaN keys may have several pairs with equal keys; these are sorted by value.
func sortPairs(body []byte, pairs [][]byte) {
	slices.SortFunc(pairs, bytes.Compare)
	copy(body, slices.Concat(pairs...))
}
