package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// ForValue returns the schema of any JSON value that encoding/json can decode into a t.
// If part of t has no schema, the error names the field.
func ForValue(t reflect.Type) (*Schema, error) {
	if t == nil {
		return nil, errors.New("schema: no type")
	}
	if known, ok := values.Load(t); ok {
		return known.(*Schema), nil
	}
	s, err := newForValue(t)
	if err == nil {
		values.Store(t, s)
	}
	return s, err
}

// values caches the schemas of types. For example, a question that is recalled a thousand times
// needs its answer's schema each time.
var values sync.Map // reflect.Type → *Schema

func newForValue(t reflect.Type) (*Schema, error) {
	b := newBuilder(t)
	root, err := b.build()
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("schema: encode the schema of %s: %w", t, err)
	}
	return &Schema{doc: doc, root: root, checks: b.checks}, nil
}

// Restore restores a schema from a document that [Schema.JSON] returned, possibly in another
// process, without the original type. The restored schema checks everything except what the methods
// of the type would reject. Restore returns an error if no schema of this package could have
// produced the document.
func Restore(doc json.RawMessage) (*Schema, error) {
	if err := checkDepth(doc); err != nil {
		return nil, fmt.Errorf("schema: restore: %w", err)
	}
	root := new(jsonschema.Schema)
	if err := json.Unmarshal(doc, root); err != nil {
		return nil, fmt.Errorf("schema: restore: %w", err)
	}
	s := &Schema{doc: bytes.Clone(doc), root: root, checks: make(map[*jsonschema.Schema]check)}
	if err := s.restore(root); err != nil {
		return nil, fmt.Errorf("schema: restore: %w", err)
	}
	return s, nil
}

// checkDepth rejects data that is not JSON or is nested too deeply to be traversed.
func checkDepth(doc json.RawMessage) error {
	_, _, err := read(doc)
	return err
}

// typeNames are the names of the types in JSON Schema.
var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// restore checks the references and types in n, and restores the checks that the keywords of n
// imply.
func (s *Schema) restore(n *jsonschema.Schema) error {
	if n == nil {
		return errors.New("a schema is null")
	}
	if n.Ref != "" {
		name, isDefinition := strings.CutPrefix(n.Ref, definitions)
		target := s.root
		if isDefinition {
			target = s.root.Defs[name]
		}
		if !isDefinition && n.Ref != "#" || target == nil {
			return fmt.Errorf("the reference %.100q does not exist", n.Ref)
		}
		if target.Ref != "" || target.AnyOf != nil {
			return fmt.Errorf("the reference %.100q refers to another reference", n.Ref)
		}
		return nil
	}
	for _, name := range n.Types {
		if !slices.Contains(typeNames, name) {
			return fmt.Errorf("unknown type %.100q; want one of %s", name, strings.Join(typeNames, ", "))
		}
	}
	if n.Type != "" && !slices.Contains(typeNames, n.Type) {
		return fmt.Errorf("unknown type %.100q; want one of %s", n.Type, strings.Join(typeNames, ", "))
	}
	if n.AnyOf != nil { // AnyOf may have no elements
		if len(n.AnyOf) != 2 || n.AnyOf[0] == nil || n.AnyOf[0].Ref == "" {
			return errors.New("anyOf must be a reference or null")
		}
	}
	switch {
	case n.Format == "date-time":
		s.checks[n] = isTime
	case n.ContentEncoding == "base64":
		s.checks[n] = isBase64
	case len(typesOf(n)) == 0 && n.Enum == nil && len(n.AnyOf) == 0:
		s.checks[n] = fitsAny
	case allowsOnly(n, "number"):
		s.checks[n] = fitsFloat(reflect.TypeFor[float64]())
	case allowsOnly(n, "integer"):
		s.checks[n] = fitsSigned(reflect.TypeFor[int64]())
		if n.Minimum != nil && *n.Minimum >= 0 {
			s.checks[n] = fitsUnsigned(reflect.TypeFor[uint64]())
		}
	}
	return s.restoreInside(n)
}

// allowsOnly reports whether n allows only the type with the given name, apart from null.
func allowsOnly(n *jsonschema.Schema, name string) bool {
	types := typesOf(n)
	return len(types) > 0 && types[0] == name
}

func (s *Schema) restoreInside(n *jsonschema.Schema) error {
	inside := make([]*jsonschema.Schema, 0, len(n.Properties)+4)
	for _, p := range n.Properties {
		inside = append(inside, p)
	}
	for _, d := range n.Defs {
		inside = append(inside, d)
	}
	inside = append(inside, n.AnyOf...)
	for _, p := range []*jsonschema.Schema{n.Items, n.PropertyNames, n.AdditionalProperties} {
		if p != nil && p.Not == nil {
			inside = append(inside, p)
		}
	}
	for _, p := range inside {
		if err := s.restore(p); err != nil {
			return err
		}
	}
	n.PropertyOrder = slices.Sorted(maps.Keys(n.Properties)) // JSON does not keep the order
	return nil
}
