package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Strict is a schema in the strict form that services enforce: every property of every object is
// required, and no other properties are allowed. A property that was optional may be null instead.
// Create one with [NewStrict].
//
// A Strict is immutable and safe for concurrent use.
type Strict struct {
	doc      json.RawMessage
	root     *object // root of the original schema
	original validator
}

// validator is implemented by this package's schemas and by its callers' schemas.
type validator interface {
	JSON() json.RawMessage
	Validate(arguments json.RawMessage) error
}

// NewStrict returns the strict form of a schema. If a part of the schema has no strict form, the
// error names that part. For example, a map has none, because its keys are not known.
func NewStrict(of validator) (*Strict, error) {
	root, err := readObject(of.JSON())
	if err != nil {
		return nil, err
	}
	strict, err := readObject(of.JSON()) // a copy that can be modified
	if err != nil {
		return nil, err
	}
	if err := makeStrict(strict, ""); err != nil {
		return nil, err
	}
	return &Strict{doc: encode(strict), root: root, original: of}, nil
}

func readObject(doc json.RawMessage) (*object, error) {
	tree, _, err := read(doc)
	if err != nil {
		return nil, err
	}
	o, ok := tree.(*object)
	if !ok {
		return nil, fmt.Errorf("got %s, want a JSON object", withArticle(typeOf(tree)))
	}
	return o, nil
}

// JSON returns the strict schema as a compact JSON document. The caller owns the document.
func (s *Strict) JSON() json.RawMessage { return bytes.Clone(s.doc) }

// Validate checks arguments, which may be in the strict or the original form.
func (s *Strict) Validate(arguments json.RawMessage) error {
	return s.original.Validate(s.Plain(arguments))
}

// Plain converts the document to the form of the original schema: it removes each optional property
// that is null although the original schema does not allow null there. A document that is not JSON
// is returned unchanged.
func (s *Strict) Plain(document json.RawMessage) json.RawMessage {
	if !bytes.Contains(document, []byte("null")) {
		return document
	}
	tree, twice, err := read(document)
	if err != nil || len(twice) > 0 || !s.leaveOut(s.root, tree, 0) {
		return document
	}
	return encode(tree)
}

// leaveOut removes optional properties that are null although the schema does not allow that. It
// reports whether it removed any.
func (s *Strict) leaveOut(schema any, value any, depth int) (changed bool) {
	node := s.resolve(schema)
	if node == nil || depth > maxDepth {
		return false
	}
	for _, of := range list(node.values["anyOf"]) {
		changed = s.leaveOut(of, value, depth+1) || changed
	}
	switch value := value.(type) {
	case []any:
		for _, item := range value {
			changed = s.leaveOut(node.values["items"], item, depth+1) || changed
		}
	case *object:
		properties, _ := node.values["properties"].(*object)
		if properties == nil {
			return changed
		}
		for _, name := range slices.Clone(value.names) {
			property, known := properties.values[name]
			switch {
			case !known:
			case value.values[name] != nil:
				changed = s.leaveOut(property, value.values[name], depth+1) || changed
			case !slices.Contains(list(node.values["required"]), any(name)) && !s.allowsNull(property, depth):
				value.remove(name)
				changed = true
			}
		}
	}
	return changed
}

// resolve follows references within the document to the schema that they lead to.
func (s *Strict) resolve(schema any) *object {
	for range maxDepth {
		node, _ := schema.(*object)
		if node == nil {
			return nil
		}
		ref, _ := node.values["$ref"].(string)
		if ref == "" {
			return node
		}
		schema = s.root
		for _, name := range strings.Split(strings.TrimPrefix(strings.TrimPrefix(ref, "#"), "/"), "/") {
			inner, _ := schema.(*object)
			if inner == nil {
				return nil
			}
			if name != "" {
				schema = inner.values[strings.NewReplacer("~1", "/", "~0", "~").Replace(name)]
			}
		}
	}
	return nil
}

func (s *Strict) allowsNull(schema any, depth int) bool {
	node := s.resolve(schema)
	if node == nil || depth > maxDepth {
		return true // any value
	}
	if of := list(node.values["anyOf"]); len(of) > 0 {
		return slices.ContainsFunc(of, func(sub any) bool { return s.allowsNull(sub, depth+1) })
	}
	if enum, ok := node.values["enum"].([]any); ok && !slices.Contains(enum, nil) {
		return false
	}
	types := namedTypes(node)
	if of, isConst := node.values["const"]; isConst {
		return of == nil
	}
	return len(types) == 0 && node.values["enum"] == nil || slices.Contains(types, "null")
}

// looseKeywords are keywords that services do not enforce.
var looseKeywords = []string{"oneOf", "allOf", "not", "if", "then", "else", "dependentRequired", "dependentSchemas", "patternProperties", "prefixItems"}

// makeStrict converts a schema to its strict form. path is the path of the value that it describes.
func makeStrict(node *object, path string) error {
	here := path
	if here == "" {
		here = "the document"
	}
	for _, keyword := range looseKeywords {
		if _, there := node.values[keyword]; there {
			return fmt.Errorf("%s: services do not enforce %q", here, keyword)
		}
	}
	types := namedTypes(node)
	if len(types) == 0 && node.values["$ref"] == nil && node.values["anyOf"] == nil && node.values["enum"] == nil && node.values["const"] == nil {
		return fmt.Errorf("%s: any value is allowed; services enforce schemas that define the type of every value", here)
	}
	if slices.Contains(types, "object") {
		if err := makeStrictObject(node, here, path); err != nil {
			return err
		}
	}
	for _, keyword := range [...]string{"$defs", "definitions"} {
		defs, _ := node.values[keyword].(*object)
		if defs == nil {
			continue
		}
		for _, name := range defs.names {
			if err := makeStrictIn(defs.values[name], name); err != nil {
				return err
			}
		}
	}
	for _, sub := range list(node.values["anyOf"]) {
		if err := makeStrictIn(sub, path); err != nil {
			return err
		}
	}
	if items, there := node.values["items"]; there {
		return makeStrictIn(items, path+"[]")
	}
	if slices.Contains(types, "array") {
		return fmt.Errorf("%s: items of any type are allowed", here)
	}
	return nil
}

func makeStrictIn(schema any, path string) error {
	node, ok := schema.(*object)
	if !ok {
		return fmt.Errorf("%s: any value is allowed; services enforce schemas that define the type of every value", path)
	}
	return makeStrict(node, path)
}

func makeStrictObject(node *object, here, path string) error {
	properties, _ := node.values["properties"].(*object)
	more, isOpen := node.values["additionalProperties"].(*object)
	if isOpen || properties == nil && node.values["additionalProperties"] != false || node.values["propertyNames"] != nil {
		if never, _ := more.member("not").(*object); never == nil || len(never.names) > 0 {
			return fmt.Errorf("%s: its keys are unknown, as in a map; services enforce objects with known properties", here)
		}
	}
	if properties == nil {
		properties = &object{values: map[string]any{}}
		node.set("properties", properties)
	}
	required := list(node.values["required"])
	all := make([]any, 0, len(properties.names))
	for _, name := range properties.names {
		if err := makeStrictIn(properties.values[name], strings.TrimPrefix(path+"."+name, ".")); err != nil {
			return err
		}
		if !slices.Contains(required, any(name)) {
			properties.values[name] = orNull(properties.values[name].(*object))
		}
		all = append(all, name)
	}
	node.set("required", all)
	node.set("additionalProperties", false)
	return nil
}

// orNull returns a schema that also allows null.
func orNull(node *object) *object {
	types := namedTypes(node)
	of, isChoice := node.values["anyOf"].([]any)
	enum, isEnum := node.values["enum"].([]any)
	switch {
	case node.values["$ref"] != nil || node.values["const"] != nil:
		null := &object{}
		null.set("type", "null")
		either := &object{}
		either.set("anyOf", []any{node, null})
		return either
	case isChoice:
		null := &object{}
		null.set("type", "null")
		node.set("anyOf", append(slices.Clone(of), null))
	case len(types) > 0 && !slices.Contains(types, "null"):
		all := make([]any, 0, len(types)+1)
		for _, t := range types {
			all = append(all, t)
		}
		node.set("type", append(all, "null"))
	}
	if isEnum && !slices.Contains(enum, nil) {
		node.set("enum", append(slices.Clone(enum), nil))
	}
	return node
}

// namedTypes returns the JSON types listed in a schema.
func namedTypes(node *object) []string {
	if name, ok := node.values["type"].(string); ok {
		return []string{name}
	}
	var names []string
	for _, name := range list(node.values["type"]) {
		if name, ok := name.(string); ok {
			names = append(names, name)
		}
	}
	return names
}

func list(v any) []any {
	items, _ := v.([]any)
	return items
}

// set sets a member in its existing position, or adds it at the end.
func (o *object) set(name string, value any) {
	if o.values == nil {
		o.values = make(map[string]any)
	}
	if _, there := o.values[name]; !there {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

// member returns the member with the given name, or nil if o is nil or has no such member.
func (o *object) member(name string) any {
	if o == nil {
		return nil
	}
	return o.values[name]
}

func (o *object) remove(name string) {
	delete(o.values, name)
	o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
}
