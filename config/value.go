package config

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/reprise-go/reprise/internal/nearest"
)

// The YAML tags of values in documents.
const (
	tagMap   = "!!map"
	tagList  = "!!seq"
	tagText  = "!!str"
	tagInt   = "!!int"
	tagFloat = "!!float"
	tagBool  = "!!bool"
	tagNull  = "!!null"
	tagMerge = "!!merge"
)

// A value is a node of a document, with the path of keys that leads to it. Methods that
// read a value of the wrong kind report a problem and return the zero value.
type value struct {
	r         *reader
	node      *yaml.Node
	path      string
	ancestors []*yaml.Node // the nodes that contain node
}

// fail reports a problem at the position of the value.
func (v value) fail(format string, args ...any) {
	v.r.report(Problem{Line: v.node.Line, Column: v.node.Column, Key: v.path, Text: fmt.Sprintf(format, args...)})
}

// failWant reports that the value is not what was wanted.
func (v value) failWant(want string) { v.fail("got %s, want %s", v.describe(), want) }

// describe returns a description of the value for messages.
func (v value) describe() string {
	switch v.node.Tag {
	case tagMap:
		return "a mapping"
	case tagList:
		return "a list"
	case tagNull:
		return "nothing"
	case tagInt, tagFloat, tagBool:
		return truncate(v.node.Value)
	}
	return strconv.Quote(truncate(v.node.Value))
}

// truncate shortens text so that it fits in messages.
func truncate(text string) string {
	const maxRunes = 60
	if r := []rune(text); len(r) > maxRunes {
		return string(r[:maxRunes]) + "…"
	}
	return text
}

// maxVisits is the maximum number of values in a document. A value repeated by aliases counts each
// time.
const maxVisits = 200_000

// resolve follows aliases. If it finds a cycle, or if the document is too deep or too large, it
// reports a problem and returns false.
func (v value) resolve(node *yaml.Node) (value, bool) {
	original := node
	if v.r.visits++; v.r.visits >= maxVisits {
		if v.r.visits == maxVisits {
			v.fail("aliases make the document too large: more than %d values", maxVisits)
		}
		return value{r: v.r, node: node, path: v.path}, false
	}
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	inner := value{r: v.r, node: node, path: v.path, ancestors: append(slices.Clip(v.ancestors), v.node)}
	switch {
	case slices.Contains(inner.ancestors, node):
		inner.node = original
		inner.fail("the anchor %q contains itself", original.Value)
		return inner, false
	case len(inner.ancestors) > maxDepth:
		inner.node = original
		inner.fail("nested deeper than %d levels", maxDepth)
		return inner, false
	}
	return inner, true
}

// An entry is a key of a mapping with its value.
type entry struct {
	key     string
	keyNode *yaml.Node
	value   value
}

// entries returns the entries of a mapping. It reports duplicate keys and expands merge
// keys.
func (v value) entries(want string) []entry {
	if v.node.Kind != yaml.MappingNode {
		v.failWant(want)
		return nil
	}
	var own, merged []entry
	seen := make(map[string]bool)
	for i := 0; i+1 < len(v.node.Content); i += 2 {
		key, ok := v.resolve(v.node.Content[i])
		if !ok {
			continue
		}
		if key.node.Tag == tagMerge {
			merged = append(merged, v.merge(v.node.Content[i+1])...)
			continue
		}
		if key.node.Kind != yaml.ScalarNode || key.node.Tag != tagText {
			key.fail("got %s as a key, want a string", key.describe())
			continue
		}
		child := v
		child.path = join(v.path, key.node.Value)
		inner, ok := child.resolve(v.node.Content[i+1])
		switch {
		case seen[key.node.Value]:
			key.path = inner.path
			key.fail("duplicate key")
		case ok:
			own = append(own, entry{key.node.Value, key.node, inner})
		}
		seen[key.node.Value] = true
	}
	for _, e := range merged {
		if !seen[e.key] {
			seen[e.key] = true
			e.value.path = join(v.path, e.key)
			own = append(own, e)
		}
	}
	return own
}

// merge returns the entries in a merge key's value, which is a mapping or a list of mappings.
func (v value) merge(node *yaml.Node) (entries []entry) {
	v.path = join(v.path, "<<")
	inner, ok := v.resolve(node)
	switch {
	case !ok:
		return nil
	case inner.node.Kind != yaml.SequenceNode:
		return inner.entries("a mapping, or a list of them, to merge")
	}
	for _, each := range inner.items("") {
		entries = append(entries, each.entries("a mapping to merge")...)
	}
	return entries
}

// fields calls, for each key of a mapping, the key's function. A key without a function is reported
// as a problem.
func (v value) fields(want string, fields map[string]func(value)) {
	names := slices.Sorted(maps.Keys(fields))
	for _, e := range v.entries(want) {
		field, ok := fields[e.key]
		if !ok {
			failUnknownKey(value{r: v.r, node: e.keyNode, path: e.value.path}, e.key, names)
			continue
		}
		field(e.value)
	}
}

func failUnknownKey(key value, name string, names []string) {
	text := "unknown key"
	if meant := nearest.To(name, names); meant != "" {
		text += fmt.Sprintf("; did you mean %q?", meant)
	}
	key.fail("%s; known keys are %s", text, strings.Join(names, ", "))
}

// items returns the items of a list.
func (v value) items(want string) (items []value) {
	if v.node.Kind != yaml.SequenceNode {
		v.failWant(want)
		return nil
	}
	for i, node := range v.node.Content {
		item := v
		item.path = fmt.Sprintf("%s[%d]", v.path, i)
		if inner, ok := item.resolve(node); ok {
			items = append(items, inner)
		}
	}
	return items
}

func (v value) isBool() bool { return v.node.Tag == tagBool }

func (v value) isNumber() bool { return v.node.Tag == tagInt || v.node.Tag == tagFloat }

func (v value) isText() bool { return v.node.Tag == tagText && v.node.Kind == yaml.ScalarNode }

func (v value) bool(want string) bool {
	if !v.isBool() {
		v.failWant(want)
		return false
	}
	return strings.EqualFold(v.node.Value, "true")
}

// integer reads an integer that must be within the limits.
func (v value) integer(least, most int64, want string) int64 {
	n, err := strconv.ParseInt(v.node.Value, 10, 64)
	if v.node.Tag != tagInt || err != nil || n < least || n > most {
		v.failWant(want)
		return 0
	}
	return n
}

// number reads a finite number that must be within the limits.
func (v value) number(least, most float64, want string) float64 {
	n, err := strconv.ParseFloat(v.node.Value, 64)
	if !v.isNumber() || err != nil || !(n >= least && n <= most) || strings.ContainsAny(v.node.Value, "xX_") {
		v.failWant(want)
		return 0
	}
	return n
}

func (v value) text(want string) string {
	if !v.isText() {
		v.failWant(want)
		return ""
	}
	return v.node.Value
}

// oneOf returns the index of the value's text in names, or -1 if it is not there.
func (v value) oneOf(names []string) int {
	want := "one of " + strings.Join(names, ", ")
	if !v.isText() {
		v.failWant(want)
		return -1
	}
	i := slices.Index(names, v.node.Value)
	if i < 0 {
		text := v.node.Value
		if meant := nearest.To(text, names); meant != "" {
			v.fail("got %s; did you mean %q? Known names are %s", v.describe(), meant, strings.Join(names, ", "))
		} else {
			v.failWant(want)
		}
	}
	return i
}

// maxDuration is the maximum duration in a document: ten years.
const maxDuration = 87600 * time.Hour

// duration reads a duration that is not negative: a string such as 1.5s, or a number of the given
// units.
func (v value) duration(unit time.Duration, unitName string) time.Duration {
	want := fmt.Sprintf("a duration of 0 to %dh, such as 1.5s, or a number of %s", maxDuration/time.Hour, unitName)
	if v.isNumber() {
		n := v.number(0, float64(maxDuration/unit), want)
		return time.Duration(math.Round(n * float64(unit)))
	}
	d, err := time.ParseDuration(v.node.Value)
	if !v.isText() || err != nil || d < 0 || d > maxDuration {
		v.failWant(want)
		return 0
	}
	return d
}

// join appends a key to a path. It quotes the key if it could be mistaken for several keys.
func join(path, key string) string {
	if strings.ContainsAny(key, ".[]: \t\n\"") || key == "" {
		key = strconv.Quote(truncate(key))
	}
	if path == "" {
		return truncate(key)
	}
	return path + "." + truncate(key)
}
