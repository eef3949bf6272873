package schema

import (
	"encoding"
	"encoding/json"
	"log/slog"
	"math/big"
	"reflect"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

var (
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonNumber      = reflect.TypeFor[json.Number]()
)

// stdType returns a new schema for a type of the standard library whose JSON
// form does not follow from its kind and methods.
func stdType(t reflect.Type) (*jsonschema.Schema, check, bool) {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &jsonschema.Schema{Type: "string", Format: "date-time"}, isTime, true
	case reflect.TypeFor[time.Duration]():
		return &jsonschema.Schema{Type: "integer", Description: "duration in nanoseconds"}, fitsSigned(t), true
	case jsonNumber:
		return &jsonschema.Schema{Type: "number"}, nil, true
	case reflect.TypeFor[big.Int]():
		return &jsonschema.Schema{Type: "integer"}, decodes(t), true
	case reflect.TypeFor[slog.Level]():
		return &jsonschema.Schema{Type: "string"}, decodes(t), true
	}
	return nil, nil, false
}

// byMethods returns a new schema for a type with its own JSON or text methods.
// JSON methods take precedence, as in encoding/json.
func byMethods(t reflect.Type) (*jsonschema.Schema, check, bool) {
	p := reflect.PointerTo(t) // the method set of a pointer includes the value's methods
	switch {
	case p.Implements(jsonUnmarshaler):
		return &jsonschema.Schema{Description: anyValue}, decodes(t), true
	case p.Implements(textUnmarshaler):
		return &jsonschema.Schema{Type: "string"}, decodes(t), true
	}
	return nil, nil, false
}

// isBytes reports whether a value of the slice type t is a base64 string in JSON.
func isBytes(t reflect.Type) bool {
	p := reflect.PointerTo(t.Elem())
	return t.Elem().Kind() == reflect.Uint8 && !p.Implements(jsonMarshaler) && !p.Implements(textMarshaler)
}

func isSigned(t reflect.Type) bool {
	return reflect.Int <= t.Kind() && t.Kind() <= reflect.Int64
}

func isUnsigned(t reflect.Type) bool {
	return reflect.Uint <= t.Kind() && t.Kind() <= reflect.Uintptr
}

// isScalar reports whether the json tag's string option applies to t.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64:
		return true
	}
	return isSigned(t) || isUnsigned(t)
}
