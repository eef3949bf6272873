package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// Validate returns nil if raw is one JSON document that the schema allows, and
// else a *[ValidationError] with all that is wrong. A name that an object gives
// twice is wrong too, and so are values that are nested deeper than 256 levels.
//
// Types with their own methods get to decode their part of the document, into
// a value that is thrown away.
func (s *Schema) Validate(raw json.RawMessage) error {
	tree, problems, err := read(raw)
	if err != nil {
		return &ValidationError{Problems: []Problem{{Message: err.Error()}}}
	}
	problems = append(problems, s.walk(tree)...)
	if len(problems) == 0 {
		problems = s.verdict(raw, tree)
	}
	if len(problems) > 0 {
		return &ValidationError{Problems: problems}
	}
	return nil
}

// verdict asks those who have the last word: the library, which knows keywords
// that the walk does not, and encoding/json.
func (s *Schema) verdict(raw json.RawMessage, tree any) []Problem {
	if err := s.resolved.Validate(plain(tree)); err != nil {
		return []Problem{{Message: libraryMessage(err)}}
	}
	if s.arguments == nil {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(reflect.New(s.arguments).Interface()); err != nil {
		p := Problem{Message: strings.TrimPrefix(err.Error(), "json: ")}
		var typ *json.UnmarshalTypeError
		if errors.As(err, &typ) {
			p = Problem{Path: typ.Field, Message: fmt.Sprintf("%s does not fit %s", typ.Value, typ.Type)}
		}
		return []Problem{p}
	}
	return nil
}

var validating = regexp.MustCompile(`^validating (\S+): `)

// libraryMessage strips the library's way to the schema that does not match down
// to its last step.
func libraryMessage(err error) string {
	text, at := err.Error(), "root"
	for {
		match := validating.FindStringSubmatch(text)
		if match == nil {
			break
		}
		text, at = text[len(match[0]):], match[1]
	}
	if at == "root" {
		return "does not match the schema: " + text
	}
	return fmt.Sprintf("does not match the schema at %s: %s", at, text)
}

// walk returns what is wrong with the tree, as far as keywords are known here:
// if, dependentRequired, contains, unevaluatedItems and their kin are left to
// the library.
func (s *Schema) walk(tree any) []Problem {
	w := walk{s: s, branches: map[branch][]Problem{}}
	return w.value("", s.root, tree)
}

type walk struct {
	s        *Schema
	branches map[branch][]Problem
}

// branch is a schema of an anyOf or oneOf, and a list or object that it is
// tried on. Its result is kept: alternatives within alternatives would else be
// tried again and again.
type branch struct {
	n    *jsonschema.Schema
	tree any
}

func (w *walk) value(path string, n *jsonschema.Schema, tree any) []Problem {
	var found []Problem
	if ref := w.s.compiled.refs[n]; ref != nil {
		found = w.value(path, ref, tree)
		if w.s.compiled.draft7 {
			return found // and the keywords beside it do not count
		}
	}
	if isFalse(n) {
		return append(found, Problem{path, "nothing is allowed here"})
	}

	if message := w.scalar(n, tree); message != "" {
		return append(found, Problem{path, message})
	}
	switch v := tree.(type) {
	case *list:
		found = append(found, w.list(path, n, v)...)
	case *object:
		found = append(found, w.object(path, n, v)...)
	}
	for _, one := range n.AllOf {
		found = append(found, w.value(path, one, tree)...)
	}
	found = append(found, w.oneAtLeast(path, n.AnyOf, tree)...)
	found = append(found, w.oneAtLeast(path, n.OneOf, tree)...)

	if check := w.s.checks[n]; check != nil && tree != nil && len(found) == 0 {
		if message := check(tree); message != "" {
			found = append(found, Problem{path, message})
		}
	}
	return found
}

// isFalse reports whether n is the schema false, as the library reads it.
func isFalse(n *jsonschema.Schema) bool {
	return n.Not != nil && reflect.ValueOf(*n.Not).IsZero()
}

// scalar returns what is wrong with the tree as a whole, or "".
func (w *walk) scalar(n *jsonschema.Schema, tree any) string {
	if n.Enum != nil && !containsValue(n.Enum, tree) {
		return fmt.Sprintf("%s is not allowed; want one of %s", brief(tree), listValues(n.Enum))
	}
	if n.Const != nil && !containsValue([]any{*n.Const}, tree) {
		return fmt.Sprintf("%s is not allowed; want %s", brief(tree), brief(treeOf(*n.Const)))
	}
	if types := typesOf(n); len(types) > 0 && !allows(types, tree) {
		return fmt.Sprintf("want %s, got %s", strings.Join(types, " or "), got(tree))
	}
	switch v := tree.(type) {
	case json.Number:
		return number(n, v)
	case string:
		return w.text(n, v)
	}
	return ""
}

func allows(types []string, tree any) bool {
	name := nameOf(tree)
	return slices.Contains(types, name) || name == "integer" && slices.Contains(types, "number")
}

// got names what was sent instead of another type. "number" would not say
// enough where an integer is wanted.
func got(tree any) string {
	if name := nameOf(tree); name != "number" {
		return name
	}
	return "number " + brief(tree)
}

func containsValue(values []any, tree any) bool {
	want := canonical(tree)
	return slices.ContainsFunc(values, func(v any) bool { return canonical(treeOf(v)) == want })
}

func listValues(values []any) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = string(encode(treeOf(v)))
	}
	return list50(texts)
}

func quoteAll(names []string) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = strconv.Quote(name)
	}
	return list50(texts)
}

// list50 joins the texts, but not more than 50.
func list50(texts []string) string {
	if n := len(texts); n > 50 {
		texts = append(texts[:50:50], fmt.Sprintf("… (%d in all)", n))
	}
	return strings.Join(texts, ", ")
}

func number(n *jsonschema.Schema, v json.Number) string {
	text := v.String()
	switch {
	case n.Minimum != nil && compare(text, *n.Minimum) < 0:
		return fmt.Sprintf("%s is too small; want at least %s", brief(v), formatNumber(*n.Minimum))
	case n.Maximum != nil && compare(text, *n.Maximum) > 0:
		return fmt.Sprintf("%s is too large; want at most %s", brief(v), formatNumber(*n.Maximum))
	case n.ExclusiveMinimum != nil && compare(text, *n.ExclusiveMinimum) <= 0:
		return fmt.Sprintf("%s is too small; want more than %s", brief(v), formatNumber(*n.ExclusiveMinimum))
	case n.ExclusiveMaximum != nil && compare(text, *n.ExclusiveMaximum) >= 0:
		return fmt.Sprintf("%s is too large; want less than %s", brief(v), formatNumber(*n.ExclusiveMaximum))
	}
	if n.MultipleOf != nil {
		// With floats, since the library does so and has the last word.
		f, _ := strconv.ParseFloat(text, 64)
		if _, rest := math.Modf(f / *n.MultipleOf); rest != 0 {
			return fmt.Sprintf("%s is not allowed; want a multiple of %s", brief(v), formatNumber(*n.MultipleOf))
		}
	}
	return ""
}

func (w *walk) text(n *jsonschema.Schema, v string) string {
	length := utf8.RuneCountInString(v)
	switch {
	case n.MinLength != nil && length < *n.MinLength:
		return fmt.Sprintf("%s is too short; want at least %s, got %d", brief(v), count(*n.MinLength, "character"), length)
	case n.MaxLength != nil && length > *n.MaxLength:
		return fmt.Sprintf("%s is too long; want at most %s, got %d", brief(v), count(*n.MaxLength, "character"), length)
	case n.Pattern != "" && !w.s.compiled.patterns[n.Pattern].MatchString(v):
		return fmt.Sprintf("%s is not allowed; want a string that matches %s", brief(v), n.Pattern)
	}
	return ""
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (w *walk) list(path string, n *jsonschema.Schema, v *list) []Problem {
	var found []Problem
	switch items := len(v.items); {
	case n.MinItems != nil && n.MaxItems != nil && *n.MinItems == *n.MaxItems && items != *n.MinItems:
		found = append(found, Problem{path, fmt.Sprintf("want exactly %s, got %d", count(*n.MinItems, "item"), items)})
	case n.MinItems != nil && items < *n.MinItems:
		found = append(found, Problem{path, fmt.Sprintf("want at least %s, got %d", count(*n.MinItems, "item"), items)})
	case n.MaxItems != nil && items > *n.MaxItems:
		found = append(found, Problem{path, fmt.Sprintf("want at most %s, got %d", count(*n.MaxItems, "item"), items)})
	}

	first, rest := n.PrefixItems, n.Items
	if w.s.compiled.draft7 {
		first = n.ItemsArray
		if first != nil {
			rest = n.AdditionalItems
		}
	}
	for i, item := range v.items {
		if i < len(first) {
			found = append(found, w.value(index(path, i), first[i], item)...)
		} else if rest != nil {
			found = append(found, w.value(index(path, i), rest, item)...)
		}
	}

	if n.UniqueItems {
		seen := map[string]int{}
		for i, item := range v.items {
			key := canonical(item)
			if j, ok := seen[key]; ok {
				found = append(found, Problem{index(path, i), fmt.Sprintf("is the same as item %d; want no item twice", j)})
				continue
			}
			seen[key] = i
		}
	}
	return found
}

func (w *walk) object(path string, n *jsonschema.Schema, v *object) []Problem {
	var found []Problem
	for _, name := range v.names {
		found = append(found, w.member(path, n, name, v.values[name])...)
	}
	for _, name := range n.Required {
		if _, ok := v.values[name]; !ok {
			found = append(found, Problem{member(path, name), "required field is missing"})
		}
	}
	switch fields := len(v.names); {
	case n.MinProperties != nil && fields < *n.MinProperties:
		found = append(found, Problem{path, fmt.Sprintf("want at least %s, got %d", count(*n.MinProperties, "field"), fields)})
	case n.MaxProperties != nil && fields > *n.MaxProperties:
		found = append(found, Problem{path, fmt.Sprintf("want at most %s, got %d", count(*n.MaxProperties, "field"), fields)})
	}
	return found
}

// member returns what is wrong with one field of the object at path.
func (w *walk) member(path string, n *jsonschema.Schema, name string, tree any) []Problem {
	var found []Problem
	at := member(path, name)
	if n.PropertyNames != nil {
		for _, p := range w.value(at, n.PropertyNames, name) {
			found = append(found, Problem{at, "name of the field: " + p.Message})
		}
	}
	declared := false
	if p := n.Properties[name]; p != nil {
		declared = true
		found = append(found, w.value(at, p, tree)...)
	}
	for _, pattern := range slices.Sorted(maps.Keys(n.PatternProperties)) {
		if p := n.PatternProperties[pattern]; w.s.compiled.patterns[pattern].MatchString(name) {
			declared = true
			found = append(found, w.value(at, p, tree)...)
		}
	}
	switch {
	case declared || n.AdditionalProperties == nil:
		return found
	case !isFalse(n.AdditionalProperties):
		return append(found, w.value(at, n.AdditionalProperties, tree)...)
	}
	return append(found, Problem{at, "unknown field; " + w.fieldsWanted(n)})
}

// fieldsWanted lists the fields of n in their order.
func (w *walk) fieldsWanted(n *jsonschema.Schema) string {
	names := slices.Clone(n.PropertyOrder)
	var others []string
	for name := range n.Properties {
		if !slices.Contains(names, name) {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	names = append(names, others...)
	switch {
	case len(n.PatternProperties) > 0:
		return "its name matches no pattern of the schema"
	case len(names) == 0:
		return "no fields are allowed"
	case len(names) == 1:
		return "want " + quoteAll(names)
	}
	return "want one of " + quoteAll(names)
}

// oneAtLeast returns what is wrong if none of the alternatives allows the tree:
// the problems of the only one that is of the same type, or a line on all.
// Whether two of a oneOf allow it is left to the library.
func (w *walk) oneAtLeast(path string, alternatives []*jsonschema.Schema, tree any) []Problem {
	var types []string
	var near [][]Problem
	for _, n := range alternatives {
		found := w.alternative(path, n, tree)
		if len(found) == 0 {
			return nil
		}
		if want := typesOf(w.deref(n)); len(want) > 0 && !allows(want, tree) {
			types = append(types, want...)
			continue
		}
		near = append(near, found)
	}
	switch {
	case len(alternatives) == 0:
		return nil
	case len(near) == 1:
		return near[0]
	case len(near) == 0:
		return []Problem{{path, fmt.Sprintf("want %s, got %s", strings.Join(distinct(types), " or "), got(tree))}}
	}
	var reasons []string
	for _, found := range near {
		reasons = append(reasons, found[0].String())
	}
	reasons = distinct(reasons)
	return []Problem{{path, "is none of the allowed forms: " + strings.Join(reasons, "; or ")}}
}

func (w *walk) alternative(path string, n *jsonschema.Schema, tree any) []Problem {
	switch tree.(type) {
	case *list, *object:
	default:
		return w.value(path, n, tree)
	}
	key := branch{n, tree}
	found, ok := w.branches[key]
	if !ok {
		found = w.value(path, n, tree)
		w.branches[key] = found
	}
	return found
}

// deref follows references; there are no loops in them.
func (w *walk) deref(n *jsonschema.Schema) *jsonschema.Schema {
	for w.s.compiled.refs[n] != nil {
		n = w.s.compiled.refs[n]
	}
	return n
}

// distinct returns the texts in their order without repetitions.
func distinct(texts []string) []string {
	var once []string
	for _, text := range texts {
		if !slices.Contains(once, text) {
			once = append(once, text)
		}
	}
	return once
}
