package codec

import (
	"maps"
	"slices"
)

// RedactJSON decodes JSON and applies redact to its strings and keys. Numbers keep
// their digits. If keys become equal, apostrophes are appended to them.
func RedactJSON(data []byte, redact func(string) string) (any, error) {
	v, err := parseJSON(data)
	if err != nil {
		return nil, err
	}
	return RedactTree(v, redact, func(v any) any {
		if text, ok := v.(string); ok {
			return redact(text)
		}
		return v
	}), nil
}

// RedactTree returns v with key applied to the keys of all maps in it, and value
// applied to everything that is neither a map nor a list. If keys become equal,
// apostrophes are appended to them.
func RedactTree(v any, key func(string) string, value func(any) any) any {
	switch v := v.(type) {
	case map[string]any:
		return RedactMap(v, key, func(v any) any { return RedactTree(v, key, value) })
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = RedactTree(v[i], key, value)
		}
		return list
	}
	return value(v)
}

// RedactMap returns m with key applied to its keys and value to its values. If
// keys become equal, apostrophes are appended to them.
func RedactMap(m map[string]any, key func(string) string, value func(any) any) map[string]any {
	redacted := make(map[string]any, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		redacted[freeKey(redacted, key(name))] = value(m[name])
	}
	return redacted
}

// freeKey returns the key, with apostrophes appended if the map already contains it.
func freeKey(m map[string]any, key string) string {
	for _, taken := m[key]; taken; _, taken = m[key] {
		key += "'"
	}
	return key
}
