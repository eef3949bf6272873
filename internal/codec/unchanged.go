package codec

import "reflect"

// Unchanged reports whether values of the type are always the same after encoding
// and decoding and share no memory: numbers, booleans, strings, and arrays and
// structs of these.
func Unchanged(t reflect.Type) bool { return t != nil && unchanged.of(t, findUnchanged) }

var unchanged perType[bool]

func findUnchanged(t reflect.Type) bool {
	if formOf(t) != byKind || readFormOf(t) != byKind {
		return false
	}
	switch k := t.Kind(); k {
	case reflect.Array:
		return Unchanged(t.Elem())
	case reflect.Struct:
		return isUnchangedStruct(t)
	default:
		return k >= reflect.Bool && k <= reflect.Float64 && k != reflect.Uintptr || k == reflect.String
	}
}

func isUnchangedStruct(t reflect.Type) bool {
	if layoutOf(t, false).clash != nil {
		return false
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options := tagOf(f)
		switch {
		case !f.IsExported() || name == "-" || !Unchanged(f.Type):
			return false
		case options.has("omitempty") && !isZeroWhenEmpty(f.Type):
			return false
		}
	}
	return true
}

// isZeroWhenEmpty reports whether every value that is omitted as empty is the zero value. This is
// not the case for floating-point numbers: -0 counts as empty, too.
func isZeroWhenEmpty(t reflect.Type) bool {
	k := t.Kind()
	return (k >= reflect.Bool && k < reflect.Uintptr || k == reflect.String) && !t.Implements(zeroer)
}
