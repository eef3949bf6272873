package printer

import (
	"encoding/json"
	"slices"
	"strings"
)

// An answerForm holds the parts of an answer's JSON schema that are needed to describe the answer.
type answerForm struct {
	Type       json.RawMessage        `json:"type"` // the name of a type, or a list of such names
	Format     string                 `json:"format"`
	Enum       []json.RawMessage      `json:"enum"`
	Properties map[string]*answerForm `json:"properties"`
	Required   []string               `json:"required"`
}

// describeAnswer returns a short description of the values that a schema allows, and an example of
// such a value as JSON. Both are empty if the schema cannot be described briefly.
func describeAnswer(schema json.RawMessage) (words, example string) {
	var f answerForm
	if len(schema) == 0 || json.Unmarshal(schema, &f) != nil {
		return "", ""
	}
	words, example = f.words(), f.example()
	if words == "" || example == "" {
		return "", ""
	}
	if fields := f.fields(); f.kind() == "object" && len(fields) > 0 {
		words += " with " + strings.Join(fields, ", ")
	}
	return words, example
}

// describesString reports whether a schema allows any string, and perhaps null.
func describesString(schema json.RawMessage) bool {
	var f answerForm
	return len(schema) > 0 && json.Unmarshal(schema, &f) == nil && f.kind() == "string" && f.example() == `"text"`
}

// kind returns the first type name other than "null".
func (f *answerForm) kind() string {
	var one string
	if json.Unmarshal(f.Type, &one) == nil {
		return one
	}
	var several []string
	_ = json.Unmarshal(f.Type, &several)
	for _, name := range several {
		if name != "null" {
			return name
		}
	}
	return ""
}

func (f *answerForm) words() string {
	if len(f.Enum) > 0 {
		values := make([]string, len(f.Enum))
		for i, v := range f.Enum {
			values[i] = string(v)
		}
		return strings.Join(values, " or ")
	}
	switch kind := f.kind(); kind {
	case "boolean":
		return "true or false"
	case "string":
		return "a string"
	case "integer", "object", "array":
		return "an " + kind
	case "number":
		return "a number"
	}
	return ""
}

// fields returns descriptions of the fields of an object, required fields first.
func (f *answerForm) fields() []string {
	var required []string
	for _, name := range f.Required {
		field := name
		if property := f.Properties[name]; property != nil && property.words() != "" {
			field += " (" + property.words() + ")"
		}
		required = append(required, field)
	}
	var optional []string
	for name := range f.Properties {
		if !slices.Contains(f.Required, name) {
			optional = append(optional, name)
		}
	}
	if slices.Sort(optional); len(optional) > 0 {
		optional[0] = "maybe " + optional[0]
	}
	return append(required, optional...)
}

func (f *answerForm) example() string {
	if len(f.Enum) > 0 {
		return string(f.Enum[0])
	}
	switch f.kind() {
	case "boolean":
		return "true"
	case "string":
		if f.Format == "date-time" {
			return `"2026-01-31T08:00:00Z"`
		}
		return `"text"`
	case "integer", "number":
		return "1"
	case "array":
		return "[]"
	case "object":
		return f.object()
	}
	return ""
}

// object returns an example object with the required fields. Fields that are objects
// themselves are left empty.
func (f *answerForm) object() string {
	fields := make([]string, len(f.Required))
	for i, name := range f.Required {
		value := "null"
		if property := f.Properties[name]; property != nil && property.kind() == "object" {
			value = "{}"
		} else if property != nil && property.example() != "" {
			value = property.example()
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return ""
		}
		fields[i] = string(quoted) + ": " + value
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
