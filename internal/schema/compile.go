package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// compiled is what validation needs to know of a tree beside the tree.
type compiled struct {
	draft7   bool
	pointers map[string]*jsonschema.Schema // by JSON pointer; "" is the root
	refs     map[*jsonschema.Schema]*jsonschema.Schema
	patterns map[string]*regexp.Regexp
}

// newSchema makes a tree ready for use. doc is its JSON.
func newSchema(root *jsonschema.Schema, doc json.RawMessage) (*Schema, error) {
	c, err := compile(root)
	if err != nil {
		return nil, err
	}
	resolved, err := root.Resolve(nil)
	if err != nil {
		return nil, err
	}
	return &Schema{doc: doc, root: root, compiled: c, resolved: resolved}, nil
}

var jsonTypes = []string{"string", "integer", "number", "boolean", "object", "array", "null"}

// The drafts that the library validates.
var drafts = map[string]bool{ // to whether it is draft 7
	"": false,
	"https://json-schema.org/draft/2020-12/schema": false,
	"http://json-schema.org/draft-07/schema#":      true,
	"https://json-schema.org/draft-07/schema#":     true,
}

// compile checks what the library does not, or not before it validates.
func compile(root *jsonschema.Schema) (*compiled, error) {
	draft7, ok := drafts[root.Schema]
	if !ok {
		return nil, fmt.Errorf("$schema %q is not supported; want draft 2020-12 or draft 7", root.Schema)
	}
	c := &compiled{
		draft7:   draft7,
		pointers: map[string]*jsonschema.Schema{},
		refs:     map[*jsonschema.Schema]*jsonschema.Schema{},
		patterns: map[string]*regexp.Regexp{},
	}
	anchors := map[string]*jsonschema.Schema{}
	if err := c.collect(root, "", anchors); err != nil {
		return nil, err
	}
	for _, at := range slices.Sorted(maps.Keys(c.pointers)) {
		n := c.pointers[at]
		if n.Ref == "" {
			continue
		}
		if c.refs[n] = c.lookUp(n.Ref, root.ID, anchors); c.refs[n] == nil {
			return nil, fmt.Errorf("%s: $ref %q leads nowhere; only references within the document are supported", place(at), n.Ref)
		}
	}
	if c.loops(root) {
		return nil, errors.New("a $ref leads back to itself without a property or an item in between")
	}
	return c, nil
}

// collect fills in the pointers, patterns and anchors of n and of all below it.
func (c *compiled) collect(n *jsonschema.Schema, at string, anchors map[string]*jsonschema.Schema) error {
	switch {
	case n == nil:
		return fmt.Errorf("%s: want a schema, got null", place(at))
	case n.ID != "" && at != "":
		return fmt.Errorf("%s: $id is supported at the root only", place(at))
	case n.DynamicRef != "" || n.DynamicAnchor != "":
		return fmt.Errorf("%s: $dynamicRef and $dynamicAnchor are not supported", place(at))
	case n.MultipleOf != nil && *n.MultipleOf <= 0:
		return fmt.Errorf("%s: multipleOf %s is not more than 0", place(at), formatNumber(*n.MultipleOf))
	}
	for _, name := range typesOf(n) {
		if !slices.Contains(jsonTypes, name) {
			return fmt.Errorf("%s: type %q is unknown; want one of %s", place(at), name, quoteAll(jsonTypes))
		}
	}
	patterns := slices.Sorted(maps.Keys(n.PatternProperties))
	if n.Pattern != "" {
		patterns = append(patterns, n.Pattern)
	}
	for _, pattern := range patterns {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return fmt.Errorf("%s: pattern %q: %w", place(at), pattern, err)
		}
		c.patterns[pattern] = re
	}
	if n.Anchor != "" {
		anchors[n.Anchor] = n
	}
	c.pointers[at] = n
	for step, child := range below(n) {
		if err := c.collect(child, at+step, anchors); err != nil {
			return err
		}
	}
	return nil
}

// lookUp returns what the reference leads to within the document, or nil.
func (c *compiled) lookUp(ref, id string, anchors map[string]*jsonschema.Schema) *jsonschema.Schema {
	if id != "" {
		ref = strings.TrimPrefix(ref, strings.TrimSuffix(id, "#"))
	}
	fragment, ok := strings.CutPrefix(ref, "#")
	if !ok && ref != "" {
		return nil
	}
	fragment, err := url.PathUnescape(fragment)
	if err != nil {
		return nil
	}
	if fragment == "" || strings.HasPrefix(fragment, "/") {
		return c.pointers[fragment]
	}
	return anchors[fragment]
}

// loops reports whether validation would go round in circles on one value. The
// library does not look, and would go round until the stack is full.
func (c *compiled) loops(root *jsonschema.Schema) bool {
	const open, done = 1, 2
	state := map[*jsonschema.Schema]int{}
	var visit func(n *jsonschema.Schema) bool
	visit = func(n *jsonschema.Schema) bool {
		if n == nil || state[n] == done {
			return false
		}
		if state[n] == open {
			return true
		}
		state[n] = open
		if slices.ContainsFunc(c.sameValue(n), visit) {
			return true
		}
		state[n] = done
		return false
	}
	for _, n := range c.pointers {
		if visit(n) {
			return true
		}
	}
	return visit(root)
}

// sameValue returns the schemas that n applies to its own value; some are nil.
func (c *compiled) sameValue(n *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{c.refs[n], n.Not, n.If, n.Then, n.Else}
	all = slices.Concat(all, n.AllOf, n.AnyOf, n.OneOf)
	all = slices.AppendSeq(all, maps.Values(n.DependentSchemas))
	return slices.AppendSeq(all, maps.Values(n.DependencySchemas))
}

// below returns the schemas directly within n, each with its step of a JSON
// pointer.
func below(n *jsonschema.Schema) iter.Seq2[string, *jsonschema.Schema] {
	ones := map[string]*jsonschema.Schema{
		"additionalItems": n.AdditionalItems, "additionalProperties": n.AdditionalProperties,
		"contains": n.Contains, "contentSchema": n.ContentSchema, "items": n.Items,
		"not": n.Not, "if": n.If, "then": n.Then, "else": n.Else, "propertyNames": n.PropertyNames,
		"unevaluatedItems": n.UnevaluatedItems, "unevaluatedProperties": n.UnevaluatedProperties,
	}
	lists := map[string][]*jsonschema.Schema{
		"allOf": n.AllOf, "anyOf": n.AnyOf, "oneOf": n.OneOf, "prefixItems": n.PrefixItems, "items": n.ItemsArray,
	}
	byName := map[string]map[string]*jsonschema.Schema{
		"$defs": n.Defs, "definitions": n.Definitions, "properties": n.Properties,
		"patternProperties": n.PatternProperties, "dependentSchemas": n.DependentSchemas,
		"dependencies": n.DependencySchemas,
	}
	return func(yield func(string, *jsonschema.Schema) bool) {
		for _, keyword := range slices.Sorted(maps.Keys(ones)) {
			if one := ones[keyword]; one != nil && !yield("/"+keyword, one) {
				return
			}
		}
		for _, keyword := range slices.Sorted(maps.Keys(lists)) {
			for i, one := range lists[keyword] {
				if !yield("/"+keyword+"/"+strconv.Itoa(i), one) {
					return
				}
			}
		}
		for _, keyword := range slices.Sorted(maps.Keys(byName)) {
			for _, name := range slices.Sorted(maps.Keys(byName[keyword])) {
				if !yield("/"+keyword+"/"+escape.Replace(name), byName[keyword][name]) {
					return
				}
			}
		}
	}
}

// escape and unescape are those of a step of a JSON pointer.
var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1")
	unescape = strings.NewReplacer("~0", "~", "~1", "/")
)

func place(pointer string) string {
	if pointer == "" {
		return "at the root"
	}
	return "at " + pointer
}
