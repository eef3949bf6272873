package schema

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// The library follows references without checking for loops, and tries nested alternatives again
// and again. A document could make it overflow the stack, which ends the process, or run for years.
// Therefore, the schemas of a document and their references are examined first.

// A graph contains the schemas of a document.
type graph struct {
	root      *jsonschema.Schema
	nodes     map[*jsonschema.Schema]*node
	byPointer map[string]*jsonschema.Schema // "" is the root
}

// A node lists the schemas that a schema refers to or contains.
type node struct {
	same       []*jsonschema.Schema          // schemas applied to the same value
	properties map[string]*jsonschema.Schema // schema applied to the property of each name
	within     []*jsonschema.Schema          // schemas that may apply to any property or item
}

var jsonTypes = []string{"string", "integer", "number", "boolean", "object", "array", "null"}

func newGraph(root *jsonschema.Schema) (*graph, error) {
	g := &graph{root, map[*jsonschema.Schema]*node{}, map[string]*jsonschema.Schema{}}
	if err := g.collect(root, ""); err != nil {
		return nil, err
	}
	for _, at := range slices.Sorted(maps.Keys(g.byPointer)) {
		if err := g.resolve(g.byPointer[at], at); err != nil {
			return nil, err
		}
	}
	if g.loops() {
		return nil, errors.New("a $ref leads back to itself without a property or an item in between")
	}
	return g, nil
}

// collect adds n, which is the schema at the JSON pointer at, and all schemas below n.
func (g *graph) collect(n *jsonschema.Schema, at string) error {
	if err := checkSupported(n, at); err != nil {
		return err
	}
	g.byPointer[at] = n
	to := &node{properties: n.Properties}
	g.nodes[n] = to
	for keyword, children := range keywords(n) {
		switch keyword {
		case "Not", "If", "Then", "Else", "AllOf", "AnyOf", "OneOf", "DependentSchemas", "DependencySchemas":
			to.same = slices.AppendSeq(to.same, maps.Values(children))
		case "Properties", "Defs", "Definitions", "ContentSchema":
		default:
			to.within = slices.AppendSeq(to.within, maps.Values(children))
		}
		for _, step := range slices.Sorted(maps.Keys(children)) {
			if err := g.collect(children[step], at+step); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkSupported checks what the library never checks, or checks only when it validates.
func checkSupported(n *jsonschema.Schema, at string) error {
	switch {
	case n == nil:
		return fmt.Errorf("%s: got null, want a schema", describePlace(at))
	case n.ID != "" && at != "":
		return fmt.Errorf("%s: $id is supported at the root only", describePlace(at))
	case n.Anchor != "" || n.DynamicAnchor != "" || n.DynamicRef != "":
		return fmt.Errorf(`%s: anchors and $dynamicRef are not supported; want a $ref such as "#/$defs/name"`, describePlace(at))
	case n.MultipleOf != nil && *n.MultipleOf <= 0:
		return fmt.Errorf("%s: multipleOf is %v, want more than 0", describePlace(at), *n.MultipleOf)
	}
	for _, name := range typesOf(n) {
		if !slices.Contains(jsonTypes, name) {
			return fmt.Errorf("%s: got type %q, want one of %q", describePlace(at), name, jsonTypes)
		}
	}
	patterns := append(slices.Sorted(maps.Keys(n.PatternProperties)), n.Pattern)
	for _, pattern := range patterns {
		if _, err := regexp.Compile(pattern); err != nil {
			return fmt.Errorf("%s: pattern %q: %w", describePlace(at), pattern, err)
		}
	}
	return nil
}

// keywords returns the schemas directly below n, keyed by the Go name of their keyword and by the
// step of their JSON pointer. It reads them from the struct and not from the document, because the
// library matches names in the document case-insensitively.
func keywords(n *jsonschema.Schema) map[string]map[string]*jsonschema.Schema {
	all := map[string]map[string]*jsonschema.Schema{}
	v := reflect.ValueOf(n).Elem()
	for i := range v.NumField() {
		field := v.Type().Field(i)
		step := "/" + jsonName(field)
		children := map[string]*jsonschema.Schema{}
		switch below := v.Field(i).Interface().(type) {
		case *jsonschema.Schema:
			if below != nil {
				children[step] = below
			}
		case []*jsonschema.Schema:
			for j, child := range below {
				children[step+"/"+strconv.Itoa(j)] = child
			}
		case map[string]*jsonschema.Schema:
			for name, child := range below {
				children[step+"/"+escapePointer.Replace(name)] = child
			}
		}
		if len(children) > 0 {
			all[field.Name] = children
		}
	}
	return all
}

func jsonName(field reflect.StructField) string {
	switch field.Name {
	case "Items", "ItemsArray":
		return "items"
	case "DependencySchemas":
		return "dependencies"
	}
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// escapePointer escapes a step of a JSON pointer.
var escapePointer = strings.NewReplacer("~", "~0", "/", "~1")

func describePlace(pointer string) string {
	if pointer == "" {
		return "at the root"
	}
	return "at " + pointer
}

// resolve adds the schema that the $ref of n refers to.
func (g *graph) resolve(n *jsonschema.Schema, at string) error {
	if n.Ref == "" {
		return nil
	}
	u, err := url.Parse(n.Ref)
	if err != nil || !strings.HasPrefix(n.Ref, "#") {
		return fmt.Errorf(`%s: $ref %q leaves the document; want one such as "#/$defs/name"`, describePlace(at), n.Ref)
	}
	to := g.byPointer[u.Fragment]
	if to == nil {
		return fmt.Errorf(`%s: $ref %q does not exist; want one such as "#/$defs/name"`, describePlace(at), n.Ref)
	}
	g.nodes[n].same = append(g.nodes[n].same, to)
	return nil
}

// loops reports whether any schema leads back to itself for the same value.
func (g *graph) loops() bool {
	done := map[*jsonschema.Schema]bool{} // false while being visited
	var visit func(n *jsonschema.Schema) bool
	visit = func(n *jsonschema.Schema) bool {
		if closed, seen := done[n]; seen {
			return !closed
		}
		done[n] = false
		if slices.ContainsFunc(g.nodes[n].same, visit) {
			return true
		}
		done[n] = true
		return false
	}
	for n := range g.nodes {
		if visit(n) {
			return true
		}
	}
	return false
}
