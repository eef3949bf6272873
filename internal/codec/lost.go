package codec

import (
	"fmt"
	"reflect"
)

// A Lost is a part of an encoded value that decoding it into a type leaves
// out.
type Lost struct {
	Path  string // such as items[2].price
	Value any
}

// LostBy returns what was lost of the encoded value data when it was decoded
// into v: fields that the type of v does not have, unless they are zero. It is
// empty where v encodes to something that is no map where data is one.
func LostBy(data []byte, v any) ([]Lost, error) {
	var was, is any
	if err := Decode(data, &was); err != nil {
		return nil, err
	}
	again, err := Encode(v)
	if err != nil {
		return nil, err
	}
	if err := Decode(again, &is); err != nil {
		return nil, err
	}
	return lost(nil, "", was, is), nil
}

func lost(all []Lost, path string, was, is any) []Lost {
	switch was := was.(type) {
	case map[string]any:
		is, ok := is.(map[string]any)
		if !ok {
			return all
		}
		for _, key := range unionOfKeys(was, nil) {
			at := memberPath(path, key)
			if value, ok := is[key]; ok {
				all = lost(all, at, was[key], value)
			} else if !isZero(was[key]) {
				all = append(all, Lost{at, was[key]})
			}
		}
	case []any:
		is, ok := is.([]any)
		if !ok {
			return all
		}
		for i := range min(len(was), len(is)) {
			all = lost(all, elementPath(path, i), was[i], is[i])
		}
	}
	return all
}

// isZero reports whether nothing is lost with v.
func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		for _, value := range v {
			if !isZero(value) {
				return false
			}
		}
		return true
	case []any:
		return len(v) == 0
	case []byte:
		return len(v) == 0
	}
	return reflect.ValueOf(v).IsZero()
}

// String is a line such as price: 12.
func (l Lost) String() string { return fmt.Sprintf("%s: %v", l.Path, l.Value) }
