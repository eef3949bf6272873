package codec

import "reflect"

// Unchanged reports whether a value of the type is always the same after it was
// encoded and decoded, and has nothing in it that could be shared: numbers,
// booleans, strings, and arrays and structs of those.
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

// isZeroWhenEmpty reports whether a value that is left out because it is empty is
// the zero value. -0 is empty, too.
func isZeroWhenEmpty(t reflect.Type) bool {
	k := t.Kind()
	return (k >= reflect.Bool && k < reflect.Uintptr || k == reflect.String) && !t.Implements(zeroer)
}
