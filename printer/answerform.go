package printer

import (
	"encoding/json"
	"slices"
	"strings"
)

// An answerForm is the part of the JSON schema of an answer that says what to type.
type answerForm struct {
	Type       json.RawMessage        `json:"type"` // a name or several
	Enum       []json.RawMessage      `json:"enum"`
	Properties map[string]*answerForm `json:"properties"`
	Required   []string               `json:"required"`
}

// describeAnswer returns in words what a schema allows, and an answer as JSON that is
// an example. Both are empty where the schema does not say it in a few words.
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

// kind is the name of the type, that of the first which is not null.
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
		return "a text"
	case "integer", "object", "array":
		return "an " + kind
	case "number":
		return "a number"
	}
	return ""
}

// fields are those of an object: first those that it needs.
func (f *answerForm) fields() []string {
	var all []string
	for _, name := range f.Required {
		field := name
		if of := f.Properties[name]; of != nil && of.words() != "" {
			field += " (" + of.words() + ")"
		}
		all = append(all, field)
	}
	var more []string
	for name := range f.Properties {
		if !slices.Contains(f.Required, name) {
			more = append(more, name)
		}
	}
	if slices.Sort(more); len(more) > 0 {
		more[0] = "maybe " + more[0]
	}
	return append(all, more...)
}

func (f *answerForm) example() string {
	if len(f.Enum) > 0 {
		return string(f.Enum[0])
	}
	switch f.kind() {
	case "boolean":
		return "true"
	case "string":
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

// object is an example with the fields that are needed; those that are objects
// themselves are not spelled out.
func (f *answerForm) object() string {
	fields := make([]string, len(f.Required))
	for i, name := range f.Required {
		value := "null"
		if of := f.Properties[name]; of != nil && of.kind() == "object" {
			value = "{}"
		} else if of != nil && of.example() != "" {
			value = of.example()
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return ""
		}
		fields[i] = string(quoted) + ": " + value
	}
	return "{" + strings.Join(fields, ", ") + "}"
}
