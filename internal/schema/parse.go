package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Parse returns the schema that doc is, of draft 2020-12 or, if its $schema says
// so, draft 7. It returns an error that names the place in the document for what
// cannot be validated: references that leave the document, $dynamicRef, an $id
// that is not at the root, and patterns that package regexp does not know.
//
// Unknown keywords are ignored, and so is format. The schema does not have to be
// one of an object.
func Parse(doc json.RawMessage) (*Schema, error) {
	tree, twice, err := read(doc)
	switch {
	case err != nil:
		return nil, fmt.Errorf("schema: parse: %w", err)
	case len(twice) > 0:
		return nil, fmt.Errorf("schema: parse: %s", twice[0])
	}
	switch tree.(type) {
	case *object, bool:
	default:
		return nil, fmt.Errorf("schema: parse: want a JSON object, got %s", nameOf(tree))
	}

	root := &jsonschema.Schema{}
	if err := json.Unmarshal(doc, root); err != nil {
		return nil, fmt.Errorf("schema: parse: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc); err != nil {
		return nil, fmt.Errorf("schema: parse: %w", err)
	}
	s, err := newSchema(root, compact.Bytes())
	if err != nil {
		return nil, fmt.Errorf("schema: parse: %w", err)
	}
	s.restoreValues(tree)
	return s, nil
}

// restoreValues sets enum and const anew: the library has read their numbers
// into a float64.
func (s *Schema) restoreValues(tree any) {
	for pointer, n := range s.compiled.pointers {
		at, ok := follow(tree, pointer).(*object)
		if !ok {
			continue
		}
		if values, ok := at.values["enum"].(*list); ok {
			n.Enum, _ = plain(values).([]any)
		}
		if value, ok := at.values["const"]; ok {
			n.Const = jsonschema.Ptr(plain(value))
		}
	}
}

// follow returns the value in the tree that the JSON pointer leads to, or nil.
func follow(tree any, pointer string) any {
	for step := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch v := tree.(type) {
		case *object:
			if pointer != "" {
				tree = v.values[unescape.Replace(step)]
			}
		case *list:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v.items) {
				return nil
			}
			tree = v.items[i]
		default:
			return nil
		}
	}
	return tree
}
