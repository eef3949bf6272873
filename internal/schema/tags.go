package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// reserved matches a jsonschema tag that means more than a description in other libraries, and that
// may come to mean more in this package.
var reserved = regexp.MustCompile(`^[^ \t\n]*=`)

func description(tag reflect.StructTag) (string, error) {
	text, ok := tag.Lookup("jsonschema")
	if !ok {
		return "", nil
	}
	if text == "" {
		return "", errors.New("the jsonschema tag is empty; want a description")
	}
	if reserved.MatchString(text) {
		return "", fmt.Errorf(`the jsonschema tag %q begins with WORD=, which is reserved; want a description, and allowed values in a tag enum:"a,b"`, text)
	}
	return text, nil
}

// enumTag sets the allowed values of n, or of its items, to those in list.
func (b *builder) enumTag(n *jsonschema.Schema, list string) error {
	for n.Items != nil {
		n = n.Items
	}
	var values []any
	for text := range strings.SplitSeq(list, ",") {
		text = strings.TrimSpace(text)
		if text == "" {
			return fmt.Errorf("the enum tag %q has an empty value", list)
		}
		value, err := b.enumValue(n, text)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(values, func(v any) bool { return equal(v, value) }) {
			return fmt.Errorf("the enum tag %q has the value %s twice", list, text)
		}
		values = append(values, value)
	}
	if slices.Contains(typesOf(n), "null") {
		values = append(values, nil)
	}
	n.Enum = values
	return nil
}

// enumValue parses text as a value of the JSON type of n.
func (b *builder) enumValue(n *jsonschema.Schema, text string) (any, error) {
	types := typesOf(n)
	var value any = text
	switch {
	case slices.Contains(types, "string"):
	case slices.Contains(types, "integer"), slices.Contains(types, "number"):
		if json.Unmarshal([]byte(text), new(float64)) != nil {
			return nil, fmt.Errorf("enum value %q is not %s", text, withArticle(types[0]))
		}
		value = json.Number(text)
	default:
		return nil, errors.New("the enum tag works on strings, integers and numbers, and on slices and arrays of them")
	}
	if problem := b.typeProblem(n, value); problem != "" {
		return nil, fmt.Errorf("enum value %q: %s", text, problem)
	}
	return value, nil
}

// typeProblem returns why value does not have the type of n, or "" if it has that type.
func (b *builder) typeProblem(n *jsonschema.Schema, value any) string {
	bare := *n
	bare.Enum = nil // the tag takes precedence over the type's own list
	s := &Schema{root: &bare, checks: map[*jsonschema.Schema]check{&bare: b.checks[n]}}
	if found := s.value("", &bare, value); len(found) > 0 {
		return found[0].Message
	}
	return ""
}

// enumOf returns the values listed by the type's method JSONSchemaEnum as JSON
// values, or nil if it has no such method.
func (b *builder) enumOf(t reflect.Type) ([]any, error) {
	if t.Kind() == reflect.Interface {
		return nil, nil // there is no value on which to call the method
	}
	if _, _, own := byMethods(t); t.Kind() == reflect.Struct && !own {
		return nil, nil // the method is promoted from an embedded field
	}
	lister, ok := reflect.New(t).Interface().(interface{ JSONSchemaEnum() []any })
	if !ok {
		return nil, nil
	}
	var values []any
	for _, v := range lister.JSONSchemaEnum() {
		raw, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("JSONSchemaEnum of %s: %w", t, err)
		}
		tree, _, err := read(raw)
		if err != nil {
			return nil, fmt.Errorf("JSONSchemaEnum of %s: %w", t, err)
		}
		values = append(values, tree)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("JSONSchemaEnum of %s lists no values", t)
	}
	return values, nil
}
