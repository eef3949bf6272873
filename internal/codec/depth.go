package codec

import (
	"errors"
	"reflect"
	"sync"
)

// ErrTooDeep is in the error of a value that points to itself, or is nested
// deeper than could be decoded again.
var ErrTooDeep = errors.New("the value points to itself, or is nested deeper than 1000 levels")

// open caches, by type, whether values of the type can contain themselves, or
// anything. The answer for a type never changes.
var open sync.Map // reflect.Type → bool

func isOpen(t reflect.Type) bool {
	known, ok := open.Load(t)
	if !ok {
		known = canRecurse(t, make(map[reflect.Type]bool))
		open.Store(t, known)
	}
	return known.(bool)
}

// checkDepth returns an error for a value that an encoder would follow for ever:
// a full stack ends the process, and cannot be recovered from.
func checkDepth(v any) error {
	if v != nil && isOpen(reflect.TypeOf(v)) && deeperThan(reflect.ValueOf(v), maxNesting) {
		return ErrTooDeep
	}
	return nil
}

// canRecurse reports whether a value of the type may reach another of a type
// above it, or an interface, which may hold anything.
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

// deeperThan reports whether what an encoder follows in v is nested deeper than so
// many levels. What a method encodes is its own affair.
func deeperThan(v reflect.Value, left int) bool {
	if left == 0 {
		return true
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return !v.IsNil() && deeperThan(v.Elem(), left-1)
	case reflect.Struct:
		for _, i := range followed.of(v.Type(), findFollowed) {
			if deeperThan(v.Field(i), left-1) {
				return true
			}
		}
	case reflect.Slice, reflect.Array:
		if holdsNothing(v.Type().Elem().Kind()) {
			return false
		}
		for i := range v.Len() {
			if deeperThan(v.Index(i), left-1) {
				return true
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if deeperThan(it.Key(), left-1) || deeperThan(it.Value(), left-1) {
				return true
			}
		}
	}
	return false
}

func holdsNothing(k reflect.Kind) bool { return k <= reflect.Complex128 || k == reflect.String }

// followed caches, by type, which fields of a struct an encoder follows.
var followed perType[[]int]

func findFollowed(t reflect.Type) (fields []int) {
	if f := formOf(t); f != byKind && f != asRawJSON {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if name, _ := tagOf(f); name != "-" && (f.IsExported() || f.Anonymous) {
			fields = append(fields, i)
		}
	}
	return fields
}
