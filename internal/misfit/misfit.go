// Package misfit explains, in JSON terms and without Go types, why encoding/json could not decode a
// value.
package misfit

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Explain rewrites an error from encoding/json, for example as "tags: got a string, want an array
// of strings". It leaves out the field if the value as a whole does not fit. Errors from other
// packages are returned unchanged.
func Explain(err error) error {
	var typ *json.UnmarshalTypeError
	if !errors.As(err, &typ) {
		if text, isJSON := strings.CutPrefix(err.Error(), "json: "); isJSON {
			return errors.New(text)
		}
		return err
	}
	text := fmt.Sprintf("got %s, want %s", Got(typ), Want(typ))
	if typ.Field != "" {
		text = typ.Field + ": " + text
	}
	return errors.New(text)
}

// Got describes the JSON value that was found, such as "a string".
func Got(err *json.UnmarshalTypeError) string {
	switch value, number, _ := strings.Cut(err.Value, " "); {
	case number != "":
		return "the number " + number
	case value == "array", value == "object":
		return "an " + value
	case value == "bool":
		return "a boolean"
	default:
		return "a " + value
	}
}

// Want describes the JSON value that was expected, such as "an array of strings".
func Want(err *json.UnmarshalTypeError) string { return want(err.Type) }

func want(t reflect.Type) string {
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return want(t.Elem())
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of at most %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return fmt.Sprintf("a non-negative integer of at most %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		switch t.Elem().Kind() {
		case reflect.String:
			return "an array of strings"
		case reflect.Struct:
			return "an array of objects"
		case reflect.Uint8:
			if t.Kind() == reflect.Slice {
				return "a string in base64"
			}
		}
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	}
	return "another value"
}
