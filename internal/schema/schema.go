package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Schema is a JSON schema inferred from a Go type. Create one with
// [ForArguments].
//
// A Schema is immutable and safe for concurrent use.
type Schema struct {
	doc  json.RawMessage
	root *jsonschema.Schema

	// checks contains those requirements of Go on values that a JSON schema cannot express.
	checks map[*jsonschema.Schema]check
}

// JSON returns the schema as a compact JSON document. Properties are in the order of the Go fields.
// The bytes are the same for every call and in every process. The caller owns the bytes.
func (s *Schema) JSON() json.RawMessage { return bytes.Clone(s.doc) }

// ForArguments returns the schema of a JSON object that encoding/json can decode
// into a t, which must be a struct, a map with string keys, or a pointer to one
// of these. If a type is encoded and decoded in different forms, the schema
// describes the form for decoding. If part of t has no schema, ForArguments
// returns an error that names the field.
//
// A document that the schema accepts can be decoded into a t, without unknown
// fields, unless a method of the type rejects null. A document that is null is
// always rejected, even for a pointer.
func ForArguments(t reflect.Type) (*Schema, error) {
	if t == nil {
		return nil, fmt.Errorf("schema: no type; want a struct or a map with string keys")
	}
	object, _ := pointedTo(t)
	isMap := object.Kind() == reflect.Map && object.Key().Kind() == reflect.String
	if object.Kind() != reflect.Struct && !isMap {
		return nil, fmt.Errorf("schema: %s is not a JSON object; want a struct or a map with string keys", t)
	}

	b := newBuilder(object)
	root, err := b.build()
	if err != nil {
		return nil, err
	}
	if types := typesOf(root); len(types) == 0 {
		// The struct has its own UnmarshalJSON. All that is known is that a model sends an object.
		root.Type, root.Description = "object", ""
	} else if types[0] != "object" {
		return nil, fmt.Errorf("schema: %s is a JSON %s; want a struct or a map with string keys that is a JSON object", t, types[0])
	}
	doc, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("schema: encode the schema of %s: %w", object, err)
	}
	return &Schema{doc: doc, root: root, checks: b.checks}, nil
}

// typesOf returns the JSON types that n allows, or no types if n allows all.
func typesOf(n *jsonschema.Schema) []string {
	if n.Type != "" {
		return []string{n.Type}
	}
	return n.Types
}
