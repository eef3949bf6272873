package codec

import (
	"encoding"
	"reflect"
	"strings"
	"sync"

	"github.com/vmihailenco/msgpack/v5"
)

// never caches, by type, what keeps every value of the type from being
// encoded. A type never changes its answer.
var never sync.Map // reflect.Type → *UnsupportedError, nil for none

// CheckType returns what keeps every value of the type from being encoded: a
// channel, a function or the like that is always there, as the type itself, a
// field or an element of an array. Where it depends on the value, as behind a
// pointer or in a slice, which may be empty, there is no error.
func CheckType(t reflect.Type) error {
	if t == nil || holdsNothing(t.Kind()) && !isUnsupported(t.Kind()) {
		return nil
	}
	known, ok := never.Load(t)
	if !ok {
		known, _ = never.LoadOrStore(t, problemOf(t))
	}
	if problem := known.(*UnsupportedError); problem != nil {
		return problem
	}
	return nil
}

// problemOf looks for the problem, and tries out whether it is one: the library
// passes over fields that another hides, and knows types that were registered.
func problemOf(t reflect.Type) *UnsupportedError {
	path, at := neverEncoded(t)
	if at == nil {
		return nil
	}
	if _, err := Encode(reflect.Zero(t).Interface()); err == nil {
		return nil
	}
	return &UnsupportedError{Path: path, Type: at}
}

func isUnsupported(k reflect.Kind) bool {
	switch k {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return true
	}
	return false
}

// neverEncoded finds a part of every value of the type that has no encoding.
// There is no recursion without a pointer, a slice or a map, where it ends.
func neverEncoded(t reflect.Type) (path string, at reflect.Type) {
	if encodesItself(t) {
		return "", nil
	}
	switch {
	case isUnsupported(t.Kind()):
		return "", t
	case t.Kind() == reflect.Array && t.Len() > 0:
		if path, at := neverEncoded(t.Elem()); at != nil {
			return "[0]" + path, at
		}
	case t.Kind() == reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() || name == "-" || strings.Contains(options, "omitempty") {
				continue
			}
			if path, at := neverEncoded(f.Type); at != nil {
				return "." + f.Name + path, at
			}
		}
	}
	return "", nil
}

// encodesItself reports whether values of the type, or pointers to them, know
// how to encode themselves.
func encodesItself(t reflect.Type) bool {
	for _, i := range []reflect.Type{
		reflect.TypeFor[msgpack.CustomEncoder](), reflect.TypeFor[msgpack.Marshaler](),
		reflect.TypeFor[encoding.BinaryMarshaler](), reflect.TypeFor[encoding.TextMarshaler](), reflect.TypeFor[error](),
	} {
		if t.Implements(i) || reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}
