package codec

import (
	"errors"
	"fmt"
	"reflect"
)

// ErrTooDeep is wrapped by the error for a value that points to itself, or is nested too deeply to
// be decoded.
var ErrTooDeep = errors.New("the value points to itself, or is nested deeper than 1000 levels")

// isUnbounded reports whether values of the type can contain values of the same type or
// of any type.
func isUnbounded(t reflect.Type) bool {
	if k := t.Kind(); k < reflect.Array || k == reflect.String {
		return false // without a look-up
	}
	return unbounded.of(t, func(t reflect.Type) bool { return canRecurse(t, make(map[reflect.Type]bool)) })
}

var unbounded perType[bool]

// canRecurse reports whether a value of the type can contain a value of one of the enclosing types,
// or an interface, which may hold anything.
func canRecurse(t reflect.Type, above map[reflect.Type]bool) bool {
	switch t.Kind() {
	case reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map, reflect.Struct:
	default:
		return false
	}
	if above[t] {
		return true
	}
	above[t] = true
	defer delete(above, t)
	switch t.Kind() {
	case reflect.Struct:
		for i := range t.NumField() {
			if canRecurse(t.Field(i).Type, above) {
				return true
			}
		}
		return false
	case reflect.Map:
		return canRecurse(t.Key(), above) || canRecurse(t.Elem(), above)
	}
	return canRecurse(t.Elem(), above)
}

// errEndless is ErrTooDeep without a path, since the path would be too long to
// read.
var errEndless = fmt.Errorf("%w", ErrTooDeep)

// limitDepth returns f with a limit on how deeply values may be nested. Without the limit, a value
// that contains itself would overflow the stack, which ends the process.
func limitDepth(f encodeFunc) encodeFunc {
	return func(e *encoder, v reflect.Value) error {
		if e.depth++; e.depth > maxNesting {
			return errEndless
		}
		err := f(e, v)
		e.depth--
		return err
	}
}

func holdsNothing(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }
