package schema

import (
	"encoding/json"
	"errors"
	"math"

	"github.com/google/jsonschema-go/jsonschema"
)

// The validation of one document is limited by the number of steps and by the nesting depth of
// applied schemas, since nesting consumes stack. A step is the application of a schema to a value,
// or stepBytes of an error message.
const (
	maxSteps  = 1 << 20
	maxNested = 2000
	stepBytes = 64
)

// A value is a JSON value in the library's form, with its components.
type value struct {
	json    any
	bytes   int // approximate size of the value as text
	members map[string]*value
	items   []*value
}

func newValue(tree any) *value {
	v := &value{json: tree, bytes: 8}
	switch tree := tree.(type) {
	case string:
		v.bytes = len(tree)
	case json.Number:
		f, _ := tree.Float64()
		v.json = min(max(f, -math.MaxFloat64), math.MaxFloat64) // the library does not support infinity
		v.bytes = len(tree)
	case []any:
		list := make([]any, len(tree))
		for i, item := range tree {
			of := newValue(item)
			list[i], v.bytes = of.json, v.bytes+of.bytes
			v.items = append(v.items, of)
		}
		v.json = list
	case *object:
		members := make(map[string]any, len(tree.names))
		v.members = make(map[string]*value, len(tree.names))
		for name, member := range tree.values {
			of := newValue(member)
			members[name], v.bytes = of.json, v.bytes+of.bytes+len(name)
			v.members[name] = of
		}
		v.json = members
	}
	return v
}

// checkWork returns an error if the library would need too many steps, or too much stack, to
// validate v.
func (g *graph) checkWork(v *value) error {
	e := estimate{g, map[application]work{}}
	if w := e.of(application{g.root, v}, 0); w.steps > maxSteps || w.nested > maxNested {
		return errors.New("the schema is too expensive to check; want fewer alternatives or references, or smaller arguments")
	}
	return nil
}

// An application is a schema applied to a value.
type application struct {
	n *jsonschema.Schema
	v *value
}

// A work is the largest amount of work that an application can cause, including all applications below
// it.
type work struct{ steps, nested, text int }

type estimate struct {
	g     *graph
	known map[application]work
}

func (e *estimate) of(a application, depth int) work {
	if w, ok := e.known[a]; ok {
		return w
	}
	n, v := a.n, a.v
	size := v.bytes / stepBytes
	w := work{
		steps: 1 + len(n.Properties) + len(n.Required) + (len(n.Enum)+len(n.PatternProperties))*(1+size),
		text:  1 + size,
	}
	add := func(n *jsonschema.Schema, v *value) (text int) {
		if w.steps > maxSteps || depth > maxNested {
			w.steps = maxSteps + 1 // no need to count further
			return 0
		}
		below := e.of(application{n, v}, depth+1)
		w.steps += below.steps
		w.nested = max(w.nested, 1+below.nested)
		return below.text
	}
	// The text of an error explains every alternative that does not match. Of the members and
	// items that do not match, it explains only the first.
	to := e.g.nodes[n]
	for _, same := range to.same {
		w.text += add(same, v)
	}
	first := 0
	for name, property := range to.properties {
		if member := v.members[name]; member != nil {
			first = max(first, add(property, member))
		}
	}
	for _, within := range to.within {
		for _, member := range v.members {
			first = max(first, add(within, member))
		}
		for _, item := range v.items {
			first = max(first, add(within, item))
		}
	}
	w.text += first
	w.steps += w.text // each application repeats the errors of the applications below it
	e.known[a] = w
	return w
}
