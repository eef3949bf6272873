package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"slices"
)

// RedactJSON decodes JSON and applies redact to its strings and keys. Numbers
// keep their digits. Keys that become equal get apostrophes appended.
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

var errNotJSON = errors.New("codec: not JSON")

// redactPlain redacts a value of the JSON decoder.
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

// RedactMap returns m with redact applied to its keys and value to its values.
// Keys that become equal get apostrophes appended.
func RedactMap(m map[string]any, redact func(string) string, value func(any) any) map[string]any {
	redacted := make(map[string]any, len(m))
	for _, key := range slices.Sorted(maps.Keys(m)) {
		redacted[freeKey(redacted, redact(key))] = value(m[key])
	}
	return redacted
}

// freeKey returns the key, with apostrophes if the map has it already.
func freeKey(m map[string]any, key string) string {
	for _, taken := m[key]; taken; _, taken = m[key] {
		key += "'"
	}
	return key
}
