package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is the maximum nesting depth of a document.
const maxDepth = 256

// An object is a JSON object in the tree that a document is read into. A tree consists of nil,
// bool, string, json.Number, []any and *object. Unlike map[string]any, it keeps the order of
// members and the digits of numbers.
type object struct {
	names  []string // in order, without duplicates
	values map[string]any
}

// MarshalJSON encodes the members in order.
func (o *object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range o.names {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(name))
		b.WriteByte(':')
		b.Write(encode(o.values[name]))
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// encode returns a tree as JSON.
func encode(tree any) []byte {
	raw, _ := json.Marshal(tree) // every tree can be encoded
	return raw
}

// read returns the tree of a document, and a problem for each duplicate name in an object. It
// returns an error if the document is not valid JSON.
func read(raw json.RawMessage) (any, []Problem, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil, errors.New("not valid JSON: the document is empty")
	}
	// As encoding/json does, accept duplicate names and invalid UTF-8. Duplicate names are reported
	// as problems.
	r := reader{Decoder: jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))}
	tree, err := r.value("")
	if errors.Is(err, errTooDeep) {
		return nil, nil, err
	}
	if err == nil {
		if _, end := r.ReadToken(); errors.Is(end, io.EOF) {
			return tree, r.duplicates, nil
		}
	}
	return nil, nil, syntaxError(raw)
}

var errTooDeep = fmt.Errorf("values are nested deeper than %d levels", maxDepth)

// syntaxError returns an error that says why raw is not a single JSON value, and where the problem
// is. The error that the decoder returns for a token does not always contain the position.
func syntaxError(raw json.RawMessage) error {
	var whole json.RawMessage
	err := json.Unmarshal(raw, &whole)
	var at *json.SyntaxError
	switch {
	case err == nil:
		return errors.New("not valid JSON")
	case !errors.As(err, &at):
		return fmt.Errorf("not valid JSON: %w", err)
	case strings.Contains(err.Error(), "after top-level value"):
		return fmt.Errorf("not valid JSON at byte %d: unexpected data after the JSON value", at.Offset)
	}
	return fmt.Errorf("not valid JSON at byte %d: %w", at.Offset, err)
}

type reader struct {
	*jsontext.Decoder
	duplicates []Problem
}

func (r *reader) value(path string) (any, error) {
	token, err := r.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case jsontext.KindNull:
		return nil, nil
	case jsontext.KindTrue, jsontext.KindFalse:
		return token.Bool(), nil
	case jsontext.KindString:
		return token.String(), nil
	case jsontext.KindNumber:
		return json.Number(token.String()), nil
	}
	if r.StackDepth() > maxDepth {
		return nil, errTooDeep
	}
	if token.Kind() == jsontext.KindBeginArray {
		return r.list(path)
	}
	return r.object(path)
}

func (r *reader) list(path string) (any, error) {
	items := []any{}
	for r.PeekKind() != jsontext.KindEndArray {
		item, err := r.value(index(path, len(items)))
		if err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	_, err := r.ReadToken()
	return items, err
}

func (r *reader) object(path string) (any, error) {
	o := &object{values: map[string]any{}}
	for r.PeekKind() != jsontext.KindEndObject {
		token, err := r.ReadToken()
		if err != nil {
			return nil, err
		}
		name := token.String()
		at := member(path, name)
		value, err := r.value(at)
		if err != nil {
			return nil, err
		}
		if _, ok := o.values[name]; ok {
			r.duplicates = append(r.duplicates, Problem{Path: at, Message: "field is given more than once"})
		} else {
			o.names = append(o.names, name)
		}
		o.values[name] = value
	}
	_, err := r.ReadToken()
	return o, err
}

// equal reports whether two trees are the same JSON value. Integers are compared digit by digit,
// and other numbers as float64.
func equal(a, b any) bool {
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b || isInteger(a) && isInteger(b) {
			return ok && a == b
		}
		x, errX := a.Float64()
		y, errY := b.Float64()
		return errX == nil && errY == nil && x == y
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case *object:
		b, ok := b.(*object)
		if !ok || len(a.names) != len(b.names) {
			return false
		}
		for name, value := range a.values {
			if other, ok := b.values[name]; !ok || !equal(value, other) {
				return false
			}
		}
		return true
	}
	return a == b
}

// isInteger reports whether encoding/json can decode the number into an integer. It returns false
// for 1.0 and 1e3, even though these are integers in a JSON schema.
func isInteger(n json.Number) bool { return !strings.ContainsAny(n.String(), ".eE") }

// typeOf returns the JSON type of a tree, which may be "integer".
func typeOf(tree any) string {
	switch v := tree.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		if isInteger(v) {
			return "integer"
		}
		return "number"
	case []any:
		return "array"
	case *object:
		return "object"
	}
	return "string"
}

// brief describes a value for use in a message. A short scalar is shown unchanged.
func brief(tree any) string {
	const most = 60
	switch v := tree.(type) {
	case []any, *object:
		return withArticle(typeOf(tree))
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

// withArticle returns the name of a type preceded by its article.
func withArticle(name string) string {
	switch {
	case name == "null":
		return name
	case strings.ContainsAny(name[:1], "aiou"):
		return "an " + name
	}
	return "a " + name
}
