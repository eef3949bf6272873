package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/google/jsonschema-go/jsonschema"
)

// Schema is a JSON schema inferred from a Go type. Make one with
// [ForArguments].
//
// A Schema does not change and may be used by several goroutines at once.
type Schema struct {
	doc  json.RawMessage
	root *jsonschema.Schema

	// checks are what Go asks of a value beyond what a JSON schema can say.
	checks map[*jsonschema.Schema]check
}

// JSON returns the schema as a compact JSON document. Properties are in the
// order of the Go fields, and the bytes are the same at every call and in every
// process. The caller owns them.
func (s *Schema) JSON() json.RawMessage { return bytes.Clone(s.doc) }

// ForArguments returns the schema of a JSON object that encoding/json reads
// into a t, which is a struct, a map with string keys or a pointer to one of
// these. Where a type is written in another form than it is read, the schema
// describes the form that is read. It returns an error that names the field if
// part of t has no schema.
//
// A document that the schema accepts decodes into a t, without unknown fields,
// unless a method of the type refuses null. null itself is refused, also for a
// pointer.
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
		// A struct with its own UnmarshalJSON: all that is known is that a model
		// sends an object.
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

// typesOf returns the JSON types that n allows, or none if it allows all.
func typesOf(n *jsonschema.Schema) []string {
	if n.Type != "" {
		return []string{n.Type}
	}
	return n.Types
}
