package codec

import "reflect"

// WantsJSON reports whether values of the type are encoded as JSON or may
// contain such values.
func WantsJSON(t reflect.Type) bool {
	return t != nil && wantsJSON.of(t, func(t reflect.Type) bool { return findsJSON(t, make(map[reflect.Type]bool)) })
}

var wantsJSON perType[bool]

func findsJSON(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return false
	}
	seen[t] = true
	switch formOf(t) {
	case asJSON, asRawJSON:
		return true
	case byKind:
	default:
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return findsJSON(t.Elem(), seen)
	case reflect.Map:
		return findsJSON(t.Key(), seen) || findsJSON(t.Elem(), seen)
	case reflect.Struct:
		for _, f := range layoutOf(t, false).fields {
			if findsJSON(f.typ, seen) {
				return true
			}
		}
	}
	return false
}

// HoldsJSON reports whether data contains a value that was encoded as JSON.
func HoldsJSON(data []byte) bool {
	_, found, _ := scan(data)
	return found.json
}
