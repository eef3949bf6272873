package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxDepth is how deep the values of a document may be nested. Arguments are
// nowhere near it, and the library takes quadratic time on the way down.
const maxDepth = 256

// A document is read into a tree of nil, bool, string, json.Number, *list and
// *object: in contrast to map[string]any it keeps the order of the members and
// the digits of the numbers. Lists and objects have an identity.

type list struct{ items []any }

type object struct {
	names  []string // in their order, each once
	values map[string]any
}

// read returns the tree of a document and its names that are given twice, of
// which the last value is kept. It returns an error for what is no JSON.
func read(raw json.RawMessage) (any, []Problem, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil, errors.New("not valid JSON: the document is empty")
	}
	// This checks all of it, so the tokens below come without errors.
	var whole json.RawMessage
	if err := json.Unmarshal(raw, &whole); err != nil {
		return nil, nil, syntaxError(err)
	}
	r := reader{dec: json.NewDecoder(bytes.NewReader(raw))}
	r.dec.UseNumber()
	tree, err := r.value("", 0)
	return tree, r.twice, err
}

func syntaxError(err error) error {
	var at *json.SyntaxError
	switch {
	case !errors.As(err, &at):
		return fmt.Errorf("not valid JSON: %w", err)
	case strings.Contains(err.Error(), "after top-level value"):
		return fmt.Errorf("not valid JSON: there is more after the end of the JSON value, at byte %d", at.Offset)
	}
	return fmt.Errorf("not valid JSON: %w, at byte %d", err, at.Offset)
}

type reader struct {
	dec   *json.Decoder
	twice []Problem
}

func (r *reader) value(path string, depth int) (any, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, fmt.Errorf("not valid JSON: %w", err)
	}
	delim, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("values are nested deeper than %d levels", maxDepth)
	}
	if delim == '[' {
		return r.list(path, depth)
	}
	return r.object(path, depth)
}

func (r *reader) list(path string, depth int) (any, error) {
	l := &list{}
	for i := 0; r.dec.More(); i++ {
		item, err := r.value(index(path, i), depth+1)
		if err != nil {
			return nil, err
		}
		l.items = append(l.items, item)
	}
	_, err := r.dec.Token()
	return l, err
}

func (r *reader) object(path string, depth int) (any, error) {
	o := &object{values: map[string]any{}}
	for r.dec.More() {
		token, err := r.dec.Token()
		if err != nil {
			return nil, fmt.Errorf("not valid JSON: %w", err)
		}
		name, _ := token.(string)
		at := member(path, name)
		value, err := r.value(at, depth+1)
		if err != nil {
			return nil, err
		}
		if _, ok := o.values[name]; ok {
			r.twice = append(r.twice, Problem{Path: at, Message: "field is given more than once"})
		} else {
			o.names = append(o.names, name)
		}
		o.values[name] = value
	}
	_, err := r.dec.Token()
	return o, err
}

// plain returns the tree as the library wants it: a json.Number would be a
// string to it. Integers keep their digits up to 64 bits.
func plain(tree any) any {
	switch v := tree.(type) {
	case json.Number:
		return plainNumber(v.String())
	case *list:
		items := make([]any, len(v.items))
		for i, item := range v.items {
			items[i] = plain(item)
		}
		return items
	case *object:
		members := make(map[string]any, len(v.values))
		for name, value := range v.values {
			members[name] = plain(value)
		}
		return members
	}
	return tree
}

func plainNumber(text string) any {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n
	}
	f, _ := strconv.ParseFloat(text, 64)
	// The library takes infinities for zero, or for no integer.
	return min(max(f, -math.MaxFloat64), math.MaxFloat64)
}

// treeOf is the inverse of plain.
func treeOf(value any) any {
	switch v := value.(type) {
	case int64:
		return json.Number(strconv.FormatInt(v, 10))
	case uint64:
		return json.Number(strconv.FormatUint(v, 10))
	case float64:
		return json.Number(strconv.FormatFloat(v, 'g', -1, 64))
	case []any:
		l := &list{}
		for _, item := range v {
			l.items = append(l.items, treeOf(item))
		}
		return l
	case map[string]any:
		o := &object{values: map[string]any{}}
		for name, member := range v {
			o.names = append(o.names, name)
			o.values[name] = treeOf(member)
		}
		slices.Sort(o.names)
		return o
	}
	return value
}

// encode writes the tree as JSON again.
func encode(tree any) []byte {
	return appendTree(nil, tree, false)
}

// canonical writes the tree so that equal values are equal strings: with sorted
// names, and numbers by what they are worth.
func canonical(tree any) string {
	return string(appendTree(nil, tree, true))
}

func appendTree(to []byte, tree any, canonical bool) []byte {
	switch v := tree.(type) {
	case nil:
		return append(to, "null"...)
	case bool:
		return strconv.AppendBool(to, v)
	case json.Number:
		if r, ok := exact(v.String()); canonical && ok {
			return append(to, r.RatString()...)
		}
		return append(to, v...)
	case *list:
		to = append(to, '[')
		for i, item := range v.items {
			if i > 0 {
				to = append(to, ',')
			}
			to = appendTree(to, item, canonical)
		}
		return append(to, ']')
	case *object:
		names := v.names
		if canonical {
			names = slices.Sorted(slices.Values(names))
		}
		to = append(to, '{')
		for i, name := range names {
			if i > 0 {
				to = append(to, ',')
			}
			to = append(appendTree(to, name, canonical), ':')
			to = appendTree(to, v.values[name], canonical)
		}
		return append(to, '}')
	}
	text, _ := json.Marshal(tree) // a string
	return append(to, text...)
}

// nameOf returns the JSON type of the tree; of integers it says "integer".
func nameOf(tree any) string {
	switch v := tree.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		if isInteger(v.String()) {
			return "integer"
		}
		return "number"
	case *list:
		return "array"
	case *object:
		return "object"
	}
	return "string"
}

// brief shows the tree in a message: scalars as they are, if they are short.
func brief(tree any) string {
	const most = 60
	switch v := tree.(type) {
	case *list:
		return "array"
	case *object:
		return "object"
	case string:
		if runes := []rune(v); len(runes) > most {
			return strconv.Quote(string(runes[:most]) + "…")
		}
		return strconv.Quote(v)
	}
	text := string(encode(tree))
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
