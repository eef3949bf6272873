package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// RedactJSON decodes JSON, with what redact makes of its strings and keys, and
// numbers as they stand. Keys that so become the same get apostrophes.
func RedactJSON(data []byte, redact func(string) string) (any, error) {
	if !json.Valid(data) {
		return nil, errNotJSON
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return nil, err
	}
	return redactPlain(v, redact), nil
}

var errNotJSON = errors.New("codec: it is no JSON")

// redactPlain redacts what the JSON decoder made.
func redactPlain(v any, redact func(string) string) any {
	switch v := v.(type) {
	case string:
		return redact(v)
	case []any:
		for i := range v {
			v[i] = redactPlain(v[i], redact)
		}
	case map[string]any:
		return RedactMap(v, redact, func(v any) any { return redactPlain(v, redact) })
	}
	return v
}

// RedactMap is m with what redact makes of its keys, and value of its values.
// Keys that so become the same get apostrophes.
func RedactMap(m map[string]any, redact func(string) string, value func(any) any) map[string]any {
	redacted := make(map[string]any, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		redacted[freeKey(redacted, redact(key))] = value(m[key])
	}
	return redacted
}

// freeKey is the key, with apostrophes if the map has it.
func freeKey(m map[string]any, key string) string {
	for _, taken := m[key]; taken; _, taken = m[key] {
		key += "'"
	}
	return key
}
