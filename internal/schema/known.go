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

// known returns a new schema of a type of the standard library whose methods or
// kind do not tell what its JSON is.
func known(t reflect.Type) (*jsonschema.Schema, check, bool) {
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

// byMethods returns a new schema of a type that has its own JSON or text
// methods. JSON methods win over text methods, as they do in encoding/json.
func (b *builder) byMethods(t reflect.Type) (*jsonschema.Schema, check, bool) {
	// The methods of a pointer include those of its value.
	p := reflect.PointerTo(t)
	readsJSON, readsText := p.Implements(jsonUnmarshaler), p.Implements(textUnmarshaler)
	writesJSON := !b.reading && p.Implements(jsonMarshaler)
	writesText := !b.reading && p.Implements(textMarshaler)

	var reads check
	if readsJSON || readsText {
		reads = decodes(t)
	}
	switch {
	case readsJSON || writesJSON:
		return &jsonschema.Schema{Description: anyValue}, reads, true
	case readsText || writesText:
		return &jsonschema.Schema{Type: "string"}, reads, true
	}
	return nil, nil, false
}

// isBytes reports whether encoding/json writes the slice type t as base64.
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

// isScalar reports whether the json tag's string option has a meaning for t.
func isScalar(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64:
		return true
	}
	return isSigned(t) || isUnsigned(t)
}
