package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/reprise-go/reprise/internal/nearest"
)

// The tags of the values that documents have.
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

// value is one value of a document, with the keys that lead to it. What is asked
// of it and it is not is reported, with the zero value.
type value struct {
	r      *reader
	node   *yaml.Node
	path   string
	within []*yaml.Node // the nodes around it
}

// fail reports a problem at the value.
func (v value) fail(format string, args ...any) {
	v.r.report(Problem{Line: v.node.Line, Column: v.node.Column, Key: v.path, Text: fmt.Sprintf(format, args...)})
}

// got reports that the value is not what is wanted.
func (v value) got(want string) { v.fail("got %s, want %s", v.describe(), want) }

// describe is the value in a message.
func (v value) describe() string {
	switch v.node.Tag {
	case tagMap:
		return "a mapping"
	case tagList:
		return "a list"
	case tagNull:
		return "nothing"
	case tagInt, tagFloat, tagBool:
		return cut(v.node.Value)
	}
	return strconv.Quote(cut(v.node.Value))
}

// cut keeps messages short.
func cut(text string) string {
	const most = 60
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "…"
	}
	return text
}

// maxVisits is how many values a document may have, with those that aliases
// repeat.
const maxVisits = 200_000

// resolve follows aliases. It reports false for a cycle of aliases.
func (v value) resolve(node *yaml.Node) (value, bool) {
	at := node
	if v.r.visits++; v.r.visits >= maxVisits {
		if v.r.visits == maxVisits {
			v.fail("aliases make the document too large: more than %d values", maxVisits)
		}
		return value{r: v.r, node: node, path: v.path}, false
	}
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	inner := value{r: v.r, node: node, path: v.path, within: append(slices.Clip(v.within), v.node)}
	switch {
	case slices.Contains(inner.within, node):
		inner.node = at
		inner.fail("the anchor %q contains itself", at.Value)
		return inner, false
	case len(inner.within) > maxDepth:
		inner.node = at
		inner.fail("nested deeper than %d levels", maxDepth)
		return inner, false
	}
	return inner, true
}

// entry is a key of a mapping and its value.
type entry struct {
	key     string
	keyNode *yaml.Node
	value   value
}

// entries are those of a mapping; a key that is there twice is reported.
// Merge keys are replaced by what they stand for.
func (v value) entries(want string) []entry {
	if v.node.Kind != yaml.MappingNode {
		v.got(want)
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
			key.fail("got %s as a key, want a text", key.describe())
			continue
		}
		at := v
		at.path = join(v.path, key.node.Value)
		inner, ok := at.resolve(v.node.Content[i+1])
		switch {
		case seen[key.node.Value]:
			key.path = inner.path
			key.fail("the key is there twice")
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

// merge are the entries of what a merge key has: a mapping or several.
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

// fields calls the function of each key of a mapping that may have those keys
// and no others.
func (v value) fields(want string, fields map[string]func(value)) {
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, e := range v.entries(want) {
		field, ok := fields[e.key]
		if !ok {
			unknown(value{r: v.r, node: e.keyNode, path: e.value.path}, e.key, names)
			continue
		}
		field(e.value)
	}
}

func unknown(at value, name string, names []string) {
	text := "unknown key"
	if meant := nearest.To(name, names); meant != "" {
		text += fmt.Sprintf("; did you mean %q?", meant)
	}
	at.fail("%s; known are %s", text, strings.Join(names, ", "))
}

// items are those of a list.
func (v value) items(want string) (items []value) {
	if v.node.Kind != yaml.SequenceNode {
		v.got(want)
		return nil
	}
	for i, node := range v.node.Content {
		at := v
		at.path = fmt.Sprintf("%s[%d]", v.path, i)
		if inner, ok := at.resolve(node); ok {
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
		v.got(want)
		return false
	}
	return strings.EqualFold(v.node.Value, "true")
}

// integer is a number without fraction within the limits.
func (v value) integer(least, most int64, want string) int64 {
	n, err := strconv.ParseInt(v.node.Value, 10, 64)
	if v.node.Tag != tagInt || err != nil || n < least || n > most {
		v.got(want)
		return 0
	}
	return n
}

// number is a finite one within the limits.
func (v value) number(least, most float64, want string) float64 {
	n, err := strconv.ParseFloat(v.node.Value, 64)
	if !v.isNumber() || err != nil || !(n >= least && n <= most) || strings.ContainsAny(v.node.Value, "xX_") {
		v.got(want)
		return 0
	}
	return n
}

func (v value) text(want string) string {
	if !v.isText() {
		v.got(want)
		return ""
	}
	return v.node.Value
}

// oneOf is the index of a text among names, -1 if it is none of them.
func (v value) oneOf(names []string) int {
	want := "one of " + strings.Join(names, ", ")
	if !v.isText() {
		v.got(want)
		return -1
	}
	i := slices.Index(names, v.node.Value)
	if i < 0 {
		text := v.node.Value
		if meant := nearest.To(text, names); meant != "" {
			v.fail("got %s; did you mean %q? Known are %s", v.describe(), meant, strings.Join(names, ", "))
		} else {
			v.got(want)
		}
	}
	return i
}

// maxDuration is the longest that documents may have: ten years.
const maxDuration = 87600 * time.Hour

// duration is a text such as 1.5s, or a number of units: 0 or more.
func (v value) duration(unit time.Duration, unitName string) time.Duration {
	want := fmt.Sprintf("a duration of 0 to %dh, such as 1.5s, or a number of %s", maxDuration/time.Hour, unitName)
	if v.isNumber() {
		n := v.number(0, float64(maxDuration/unit), want)
		return time.Duration(math.Round(n * float64(unit)))
	}
	d, err := time.ParseDuration(v.node.Value)
	if !v.isText() || err != nil || d < 0 || d > maxDuration {
		v.got(want)
		return 0
	}
	return d
}

// join is the path of a key within another. Keys that could be mistaken for
// several are quoted.
func join(path, key string) string {
	if strings.ContainsAny(key, ".[]: \t\n\"") || key == "" {
		key = strconv.Quote(cut(key))
	}
	if path == "" {
		return cut(key)
	}
	return path + "." + cut(key)
}
