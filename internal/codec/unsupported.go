package codec

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// UnsupportedError is a value that has no encoding.
type UnsupportedError struct {
	Path string       // such as ".Items[2].Done"; empty for the value itself
	Type reflect.Type // what was found there
}

// Error names the path and the type.
func (e *UnsupportedError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("codec: a %s cannot be encoded", e.Type)
	}
	return fmt.Sprintf("codec: field %s: a %s cannot be encoded", e.Path, e.Type)
}

func isUnsupported(k reflect.Kind) bool {
	switch k {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return true
	}
	return false
}

// maxDepth ends the search in values that point to themselves.
const maxDepth = 100

// findUnsupported returns the path to the first value in v that has no encoding.
// It runs only after an encoder has failed.
func findUnsupported(v reflect.Value, depth int) (path string, t reflect.Type) {
	if !v.IsValid() || depth > maxDepth || encodesItself(v.Type()) {
		return "", nil
	}
	if isUnsupported(v.Kind()) {
		return "", v.Type()
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return findUnsupported(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			if !f.IsExported() && !f.Anonymous || name == "-" || strings.Contains(options, "omitempty") && v.Field(i).IsZero() {
				continue
			}
			if path, t := findUnsupported(v.Field(i), depth+1); t != nil {
				return "." + f.Name + path, t
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			if path, t := findUnsupported(v.Index(i), depth+1); t != nil {
				return fmt.Sprintf("[%d]%s", i, path), t
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if path, t := findUnsupported(it.Value(), depth+1); t != nil {
				return fmt.Sprintf("[%v]%s", it.Key(), path), t
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
		if t.Implements(i) || t.Kind() != reflect.Interface && reflect.PointerTo(t).Implements(i) {
			return true
		}
	}
	return false
}
