package schema

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Validate returns nil if raw is a single JSON document that the schema allows, and otherwise a
// *[ValidationError] with all problems. It rejects objects with duplicate names, and values nested
// deeper than 256 levels.
//
// To check the part of the document that belongs to a type with its own methods, Validate decodes
// that part into a temporary value of the type.
func (s *Schema) Validate(raw json.RawMessage) error {
	tree, problems, err := read(raw)
	if err != nil {
		return &ValidationError{Problems: []Problem{{Message: err.Error()}}}
	}
	problems = append(problems, s.value("", s.root, tree)...)
	if len(problems) > 0 {
		return &ValidationError{Problems: problems}
	}
	return nil
}

// value returns the problems of the tree at path. It applies the keywords that an inferred schema
// may have.
func (s *Schema) value(path string, n *jsonschema.Schema, tree any) []Problem {
	switch {
	case n.Ref != "":
		return s.value(path, s.deref(n), tree)
	case n.AnyOf != nil:
		return s.nullable(path, n.AnyOf[0], tree)
	}
	if message := scalar(n, tree); message != "" {
		return []Problem{{path, message}}
	}

	var found []Problem
	switch v := tree.(type) {
	case []any:
		found = s.list(path, n, v)
	case *object:
		found = s.object(path, n, v)
	}
	if check := s.checks[n]; check != nil && tree != nil && len(found) == 0 {
		if message := check(tree); message != "" {
			found = append(found, Problem{path, message})
		}
	}
	return found
}

// deref returns the schema that n refers to. For the forms of references, see builder.ref.
func (s *Schema) deref(n *jsonschema.Schema) *jsonschema.Schema {
	if name, ok := strings.CutPrefix(n.Ref, definitions); ok {
		return s.root.Defs[name]
	}
	return s.root
}

// nullable is like value, but for a schema that allows null in addition to the values that ref
// allows.
func (s *Schema) nullable(path string, ref *jsonschema.Schema, tree any) []Problem {
	if tree == nil {
		return nil
	}
	types := append(slices.Clone(typesOf(s.deref(ref))), "null")
	if !allows(types, tree) {
		return []Problem{{path, wantTypes(types, tree)}}
	}
	return s.value(path, ref, tree)
}

// scalar returns the problem with the tree itself, or "" if there is none.
func scalar(n *jsonschema.Schema, tree any) string {
	if n.Enum != nil && !slices.ContainsFunc(n.Enum, func(v any) bool { return equal(v, tree) }) {
		return fmt.Sprintf("got %s, want %s", brief(tree), oneOf(texts(n.Enum)))
	}
	if types := typesOf(n); len(types) > 0 && !allows(types, tree) {
		return wantTypes(types, tree)
	}
	if number, ok := tree.(json.Number); ok {
		f, _ := number.Float64() // bounds are integers that a float64 can represent
		switch {
		case n.Minimum != nil && f < *n.Minimum:
			return fmt.Sprintf("got %s, want at least %s", brief(tree), formatNumber(*n.Minimum))
		case n.Maximum != nil && f > *n.Maximum:
			return fmt.Sprintf("got %s, want at most %s", brief(tree), formatNumber(*n.Maximum))
		}
	}
	return ""
}

func allows(types []string, tree any) bool {
	name := typeOf(tree)
	return slices.Contains(types, name) || name == "integer" && slices.Contains(types, "number")
}

func wantTypes(types []string, tree any) string {
	number, isNumber := tree.(json.Number)
	got := withArticle(typeOf(tree))
	if isNumber && !isInteger(number) {
		got = brief(tree)
	}
	want := make([]string, len(types))
	for i, name := range types {
		want[i] = withArticle(name)
		if name == "integer" && isNumber {
			want[i] += " (no fraction or exponent)"
		}
	}
	return fmt.Sprintf("got %s, want %s", got, strings.Join(want, " or "))
}

func formatNumber(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func texts(values []any) []string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(encode(v))
	}
	return texts
}

// oneOf lists up to 50 allowed values.
func oneOf(texts []string) string {
	const most = 50
	switch n := len(texts); {
	case n == 1:
		return texts[0]
	case n > most:
		texts = append(texts[:most:most], fmt.Sprintf("… (%d in all)", n))
	}
	return "one of " + strings.Join(texts, ", ")
}

func (s *Schema) list(path string, n *jsonschema.Schema, items []any) []Problem {
	var found []Problem
	if n.MinItems != nil && len(items) != *n.MinItems { // for an array, the maximum is the same
		found = append(found, Problem{path, fmt.Sprintf("got an array of length %d, want length %d", len(items), *n.MinItems)})
	}
	if n.Items == nil { // any JSON value
		return found
	}
	for i, item := range items {
		found = append(found, s.value(index(path, i), n.Items, item)...)
	}
	return found
}

func (s *Schema) object(path string, n *jsonschema.Schema, o *object) []Problem {
	var found []Problem
	for _, name := range o.names {
		found = append(found, s.member(path, n, name, o.values[name])...)
	}
	for _, name := range n.Required {
		if _, ok := o.values[name]; !ok {
			found = append(found, Problem{member(path, name), "required field is missing"})
		}
	}
	return found
}

// member returns the problems with the member called name of the object at path.
func (s *Schema) member(path string, n *jsonschema.Schema, name string, tree any) []Problem {
	at := member(path, name)
	if p := n.Properties[name]; p != nil {
		return s.value(at, p, tree)
	}
	if n.AdditionalProperties == nil { // any JSON value
		return nil
	}
	if n.AdditionalProperties.Not != nil { // false, for a struct
		return []Problem{{at, "unknown field; " + knownFields(n)}}
	}
	var found []Problem
	if n.PropertyNames != nil {
		for _, p := range s.value(at, n.PropertyNames, name) {
			found = append(found, Problem{at, "name of the field: " + p.Message})
		}
	}
	return append(found, s.value(at, n.AdditionalProperties, tree)...)
}

func knownFields(n *jsonschema.Schema) string {
	if len(n.PropertyOrder) == 0 {
		return "want no fields"
	}
	names := make([]string, len(n.PropertyOrder))
	for i, name := range n.PropertyOrder {
		names[i] = strconv.Quote(name)
	}
	return "want " + oneOf(names)
}
