package schema

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The library can infer schemas too, but it does not follow encoding/json: it treats a []byte as an
// array, promotes fields by Go's rules, and rejects recursion and types with methods. Therefore the
// schema is built here, from the library's types.

// wantType lists the allowed types in the error for a type that has no schema.
const wantType = `want a bool, string, integer, float, struct, slice, array, map or any, a pointer to one of these, ` +
	`or a type with its own JSON or text methods; the tag json:"-" leaves a field out`

// definitions is the prefix of every reference to a definition.
const definitions = "#/$defs/"

const anyValue = "any JSON value"

// A builder builds the schema of one type.
type builder struct {
	root   reflect.Type
	open   map[reflect.Type]bool   // types being built
	names  map[reflect.Type]string // names of the definitions of recursive types
	defs   map[string]*jsonschema.Schema
	checks map[*jsonschema.Schema]check
}

func newBuilder(root reflect.Type) *builder {
	return &builder{
		root:   root,
		open:   map[reflect.Type]bool{},
		names:  map[reflect.Type]string{},
		defs:   map[string]*jsonschema.Schema{},
		checks: map[*jsonschema.Schema]check{},
	}
}

func (b *builder) build() (*jsonschema.Schema, error) {
	root, err := b.value(b.root, "")
	if err != nil {
		return nil, err
	}
	if len(b.defs) > 0 {
		root.Defs = b.defs
	}
	return root, nil
}

func (b *builder) errorf(path, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if path == "" {
		return fmt.Errorf("schema: %s: %w", b.root, err)
	}
	return fmt.Errorf("schema: %s: field %s: %w", b.root, path, err)
}

// value returns a new schema for t. path is the Go path to the value of type t.
func (b *builder) value(t reflect.Type, path string) (*jsonschema.Schema, error) {
	elem, ok := pointedTo(t)
	if !ok {
		return nil, b.errorf(path, "%s points to itself and has no schema; %s", t, wantType)
	}
	n, err := b.elem(elem, path)
	if err != nil {
		return nil, err
	}
	if elem != t {
		return nullable(n), nil
	}
	return n, nil
}

// pointedTo follows pointers to the first type that is not a pointer. It returns false if there is
// none.
func pointedTo(t reflect.Type) (reflect.Type, bool) {
	seen := map[reflect.Type]bool{}
	for t.Kind() == reflect.Pointer {
		if seen[t] {
			return nil, false
		}
		seen[t] = true
		t = t.Elem()
	}
	return t, true
}

func (b *builder) elem(t reflect.Type, path string) (*jsonschema.Schema, error) {
	values, err := b.enumOf(t)
	if err != nil {
		return nil, b.errorf(path, "%w", err)
	}
	n, err := b.withoutEnum(t, path)
	if err != nil || values == nil {
		return n, err
	}
	if n.Ref != "" {
		return nil, b.errorf(path, "JSONSchemaEnum of %s: a type that contains itself cannot be an enum", t)
	}
	if n.Description == anyValue {
		n.Description = ""
	}
	n.Enum = values
	return n, nil
}

func (b *builder) withoutEnum(t reflect.Type, path string) (*jsonschema.Schema, error) {
	if n, check, ok := stdType(t); ok {
		return b.checked(n, check), nil
	}
	if t.Kind() == reflect.Interface {
		if t.NumMethod() > 0 {
			return nil, b.errorf(path, "interface %s has methods, so encoding/json cannot read into it; %s", t, wantType)
		}
		return b.checked(&jsonschema.Schema{Description: anyValue}, fitsAny), nil
	}
	if n, check, ok := byMethods(t); ok {
		return b.checked(n, check), nil
	}

	if t.Name() == "" {
		return b.byKind(t, path)
	}
	if b.open[t] || b.names[t] != "" {
		return b.ref(t), nil
	}
	b.open[t] = true
	defer delete(b.open, t)
	n, err := b.byKind(t, path)
	if err != nil {
		return nil, err
	}
	if name := b.names[t]; name != "" {
		b.defs[name] = n
		return b.ref(t), nil
	}
	return n, nil
}

func (b *builder) checked(n *jsonschema.Schema, check check) *jsonschema.Schema {
	if check != nil {
		b.checks[n] = check
	}
	return n
}

// ref returns a reference to the schema of t, a type that contains itself. The root stays out of
// the definitions, because LLM services expect the object at the root.
func (b *builder) ref(t reflect.Type) *jsonschema.Schema {
	if t == b.root {
		return &jsonschema.Schema{Ref: "#"}
	}
	if b.names[t] == "" {
		b.names[t] = b.definitionName(t)
	}
	return &jsonschema.Schema{Ref: definitions + b.names[t]}
}

// definitionName returns a unique name for the definition of t. The name needs no escaping in a
// reference, even if t has type arguments, which may contain slashes and brackets.
func (b *builder) definitionName(t reflect.Type) string {
	base := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '-':
			return r
		}
		return '_'
	}, t.Name())
	taken := slices.Collect(maps.Values(b.names))
	name := base
	for i := 2; slices.Contains(taken, name); i++ {
		name = fmt.Sprint(base, "_", i)
	}
	return name
}

func (b *builder) byKind(t reflect.Type, path string) (*jsonschema.Schema, error) {
	switch t.Kind() {
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}, nil
	case reflect.String:
		return &jsonschema.Schema{Type: "string"}, nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return b.checked(signed(t), fitsSigned(t)), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return b.checked(unsigned(t), fitsUnsigned(t)), nil
	case reflect.Float32, reflect.Float64:
		return b.checked(&jsonschema.Schema{Type: "number"}, fitsFloat(t)), nil
	case reflect.Slice:
		if isBytes(t) {
			n := &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
			return b.checked(n, isBase64), nil
		}
		return b.list(t, path)
	case reflect.Array:
		n, err := b.list(t, path)
		if err != nil {
			return nil, err
		}
		n.MinItems, n.MaxItems = jsonschema.Ptr(t.Len()), jsonschema.Ptr(t.Len())
		return n, nil
	case reflect.Map:
		return b.mapping(t, path)
	case reflect.Struct:
		return b.object(t, path)
	}
	return nil, b.errorf(path, "%s has no schema; %s", t, wantType)
}

// signed returns the schema of a signed integer, with bounds if it has less than 64 bits. The
// library stores bounds as floats, which cannot represent the bounds of 64-bit integers.
func signed(t reflect.Type) *jsonschema.Schema {
	n := &jsonschema.Schema{Type: "integer"}
	if t.Kind() != reflect.Int && t.Bits() < 64 {
		limit := math.Ldexp(1, t.Bits()-1)
		n.Minimum, n.Maximum = jsonschema.Ptr(-limit), jsonschema.Ptr(limit-1)
	}
	return n
}

func unsigned(t reflect.Type) *jsonschema.Schema {
	n := &jsonschema.Schema{Type: "integer", Minimum: jsonschema.Ptr(0.0)}
	if t.Kind() != reflect.Uint && t.Kind() != reflect.Uintptr && t.Bits() < 64 {
		n.Maximum = jsonschema.Ptr(math.Ldexp(1, t.Bits()) - 1)
	}
	return n
}

func (b *builder) list(t reflect.Type, path string) (*jsonschema.Schema, error) {
	items, err := b.value(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	return &jsonschema.Schema{Type: "array", Items: items}, nil
}

func (b *builder) mapping(t reflect.Type, path string) (*jsonschema.Schema, error) {
	names, ok := b.keys(t.Key())
	if !ok {
		return nil, b.errorf(path, "%s has keys that JSON cannot hold; want strings, integers or a type with its own text methods", t)
	}
	values, err := b.value(t.Elem(), path+"[]")
	if err != nil {
		return nil, err
	}
	if values.Description == anyValue {
		values.Description = "" // "additionalProperties": true already means that
	}
	return &jsonschema.Schema{Type: "object", PropertyNames: names, AdditionalProperties: values}, nil
}

// keys returns the schema of the keys of the map type t, or nil if any string can be a key. It
// returns false if encoding/json cannot decode the keys from strings.
func (b *builder) keys(t reflect.Type) (*jsonschema.Schema, bool) {
	switch {
	case reflect.PointerTo(t).Implements(textUnmarshaler):
		return b.checked(&jsonschema.Schema{Type: "string"}, isText(t)), true
	case t.Kind() == reflect.String:
		return nil, true
	case isSigned(t), isUnsigned(t):
		return b.checked(quoted(t), isQuoted(t)), true
	}
	return nil, false
}

func (b *builder) object(t reflect.Type, path string) (*jsonschema.Schema, error) {
	n := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	for _, f := range fieldsOf(t) {
		at := strings.TrimPrefix(path+"."+f.goName, ".")
		if f.unreachable != nil {
			return nil, b.errorf(at, "embedded pointer to the unexported struct %s, which encoding/json cannot set; embed the struct itself", f.unreachable)
		}
		p, err := b.property(f, at)
		if err != nil {
			return nil, err
		}
		n.Properties[f.name] = p
		n.PropertyOrder = append(n.PropertyOrder, f.name)
		if !f.optional {
			n.Required = append(n.Required, f.name)
		}
	}
	return n, nil
}

func (b *builder) property(f *field, path string) (*jsonschema.Schema, error) {
	n, err := b.fieldValue(f, path)
	if err != nil {
		return nil, err
	}
	if list, ok := f.tag.Lookup("enum"); ok {
		if err := b.enumTag(n, list); err != nil {
			return nil, b.errorf(path, "%w", err)
		}
	}
	if kind := f.typ.Kind(); f.optional && (kind == reflect.Slice || kind == reflect.Map) {
		n = nullable(n)
	}
	text, err := description(f.tag)
	if err != nil {
		return nil, b.errorf(path, "%w", err)
	}
	switch {
	case text == "":
	case n.Description == "" || n.Description == anyValue:
		n.Description = text
	default:
		n.Description = text + " (" + n.Description + ")"
	}
	return n, nil
}

func (b *builder) fieldValue(f *field, path string) (*jsonschema.Schema, error) {
	elem := f.typ
	if elem.Kind() == reflect.Pointer {
		elem = elem.Elem()
	}
	if !f.quoted || !isScalar(elem) {
		return b.value(f.typ, path)
	}
	if _, _, own := byMethods(elem); own {
		return nil, b.errorf(path, "the json tag's string option does not work with the methods of %s; remove it", elem)
	}
	n := b.checked(quoted(elem), isQuoted(elem))
	if elem != f.typ {
		n = nullable(n)
	}
	return n, nil
}

// quoted returns the schema of a string that contains a scalar of type t.
func quoted(t reflect.Type) *jsonschema.Schema {
	if t.Kind() == reflect.Bool {
		return &jsonschema.Schema{Type: "string", Enum: []any{"true", "false"}}
	}
	n := &jsonschema.Schema{Type: "string", Description: textFormOf(t).want}
	if pattern := textFormOf(t).pattern; pattern != nil {
		n.Pattern = pattern.String()
	}
	return n
}

// nullable returns a schema that accepts null in addition to what n accepts. It changes n itself,
// unless n is a reference.
func nullable(n *jsonschema.Schema) *jsonschema.Schema {
	switch {
	case n.Ref != "":
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{n, {Type: "null"}}}
	case n.Type != "":
		n.Type, n.Types = "", []string{n.Type, "null"}
	case n.Types == nil && n.Enum == nil, slices.Contains(n.Types, "null"):
		return n
	}
	if n.Enum != nil && !slices.Contains(n.Enum, nil) {
		n.Enum = append(n.Enum, nil)
	}
	return n
}
