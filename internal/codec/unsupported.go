package codec

import (
	"fmt"
	"reflect"
)

// UnsupportedError reports a value that cannot be encoded.
type UnsupportedError struct {
	Path string       // such as ".Items[2].Done"; empty for the value itself
	Type reflect.Type // type of that part
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
