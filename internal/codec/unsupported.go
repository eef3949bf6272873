package codec

import (
	"fmt"
	"reflect"
)

// unsupported walks v to the first value that no encoding exists for, and
// returns the path to it. It runs only after an encoder has failed.
func unsupported(v reflect.Value) (path string, t reflect.Type) {
	return findUnsupported(v, 0)
}

// maxDepth ends the walk in values that point to themselves.
const maxDepth = 100

func findUnsupported(v reflect.Value, depth int) (string, reflect.Type) {
	if !v.IsValid() || depth > maxDepth {
		return "", nil
	}
	switch v.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Uintptr:
		return "", v.Type()
	case reflect.Pointer, reflect.Interface:
		return findUnsupported(v.Elem(), depth+1)
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
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
