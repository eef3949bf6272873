package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is a JSON schema that is ready to validate. [For], [ForArguments] and
// [Parse] make one; the zero value is of no use.
//
// A Schema does not change and is for many goroutines.
type Schema struct {
	doc      json.RawMessage
	root     *jsonschema.Schema
	compiled *compiled
	resolved *jsonschema.Resolved

	// checks are what Go asks of a value beyond what a JSON schema can say.
	checks map[*jsonschema.Schema]check

	// arguments is the type that a valid document decodes into; nil unless the
	// schema is from ForArguments.
	arguments reflect.Type
}

// JSON returns the schema as a compact JSON document. Properties are in the
// order of the Go fields, or of the parsed document, and the bytes are the same
// at every call and in every process. The caller owns them.
func (s *Schema) JSON() json.RawMessage {
	return bytes.Clone(s.doc)
}

// For returns the schema of the JSON that encoding/json writes for a t and
// reads into one. It returns an error that names the field if part of t has no
// schema.
//
// A required slice or map does not accept null, although encoding/json writes
// null for a nil one.
func For(t reflect.Type) (*Schema, error) {
	if t == nil {
		return nil, fmt.Errorf("schema: no type")
	}
	b := newBuilder(t)
	root, err := b.build()
	if err != nil {
		return nil, err
	}
	return b.schema(root)
}

// ForArguments returns the schema of a JSON object that encoding/json reads
// into a t, which is a struct, a map with string keys or a pointer to one of
// these. Where a type is written in another form than it is read, this is the
// form that is read.
//
// A document that the schema validates is sure to decode into a t, without
// unknown fields. null is not valid, not for a pointer either.
func ForArguments(t reflect.Type) (*Schema, error) {
	if t == nil {
		return nil, fmt.Errorf("schema: no type; arguments want a struct or a map with string keys")
	}
	object, _ := pointedTo(t)
	isMap := object.Kind() == reflect.Map && object.Key().Kind() == reflect.String
	if object.Kind() != reflect.Struct && !isMap {
		return nil, fmt.Errorf("schema: %s is not a JSON object; arguments want a struct or a map with string keys", t)
	}

	b := newBuilder(object)
	b.reading = true
	root, err := b.build()
	if err != nil {
		return nil, err
	}
	if types := typesOf(root); len(types) == 0 {
		// A struct with its own UnmarshalJSON: nothing is known but that a model
		// sends an object.
		root.Type, root.Description = "object", ""
	} else if types[0] != "object" {
		return nil, fmt.Errorf("schema: %s is a JSON %s; arguments want a struct or a map with string keys that is a JSON object", t, types[0])
	}

	s, err := b.schema(root)
	if err != nil {
		return nil, err
	}
	s.arguments = object
	return s, nil
}

// typesOf returns the JSON types that n allows, or none if it does not say.
func typesOf(n *jsonschema.Schema) []string {
	if n.Type != "" {
		return []string{n.Type}
	}
	return n.Types
}
