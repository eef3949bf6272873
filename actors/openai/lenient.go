package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/reprise-go/reprise/record"
)

// Services differ in the JSON types of what they send. These types read what
// means the same.

// lenient reads what has another shape than expected as nothing. It is for what an answer can do
// without.
type lenient[T any] struct{ value T }

// UnmarshalJSON reads anything.
func (l *lenient[T]) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &l.value) != nil {
		l.value = *new(T)
	}
	return nil
}

// lenientText reads a string, a number, true or false; null is empty.
type lenientText string

// UnmarshalJSON reads all that has a text.
func (t *lenientText) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		*t = ""
		return nil
	case data[0] == '"':
		return unquote(data, (*string)(t))
	}
	*t = lenientText(data)
	return nil
}

// unquote reads a string. Those without an escape, as most are in a stream, need
// no decoder, and one that is there already no memory.
func unquote(data []byte, into *string) error {
	if bytes.IndexByte(data, '\\') >= 0 || !utf8.Valid(data) {
		return jsonv1.Unmarshal(data, into)
	}
	if text := data[1 : len(data)-1]; string(text) != *into {
		*into = string(text)
	}
	return nil
}

// lenientInt reads an integer, also one that is written 12.0 or "12"; null is
// zero.
type lenientInt int

// UnmarshalJSON reads all that is a number.
func (n *lenientInt) UnmarshalJSON(data []byte) error {
	text := strings.Trim(string(data), `"`)
	if text == "null" || text == "" {
		*n = 0
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) || math.Abs(f) > math.MaxInt32 {
		return fmt.Errorf("got %s, want a number of at most 2147483647", record.Truncate(string(data), 40))
	}
	*n = lenientInt(f)
	return nil
}

// lenientIndex is an integer as text: it identifies something; null is empty.
type lenientIndex string

// UnmarshalJSON reads all that is a number.
func (i *lenientIndex) UnmarshalJSON(data []byte) error {
	*i = ""
	if string(data) == "null" {
		return nil
	}
	var n lenientInt
	if err := n.UnmarshalJSON(data); err != nil {
		return err
	}
	*i = lenientIndex(strconv.Itoa(int(n)))
	return nil
}

// lenientArguments reads the arguments of a tool call: a string that holds
// JSON, or the JSON itself; null is empty.
type lenientArguments string

// UnmarshalJSON reads either form.
func (a *lenientArguments) UnmarshalJSON(data []byte) error {
	switch {
	case string(data) == "null":
		*a = ""
		return nil
	case data[0] == '"':
		return unquote(data, (*string)(a))
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return err
	}
	*a = lenientArguments(compact.String())
	return nil
}

// content is what a message says: a text, or a list of parts. Thoughts may be
// among the parts. Where a JSON document was asked for, some services send it
// as it is.
type content struct {
	text, reasoning, refusal string
	images                   []string
}

type contentPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	Thinking json.RawMessage `json:"thinking"` // a text, or parts
	ImageURL imageURL        `json:"image_url"`
}

// UnmarshalJSON reads either form; null is empty.
func (c *content) UnmarshalJSON(data []byte) error {
	*c = content{}
	switch data[0] {
	case 'n':
		return nil
	case '[':
	case '"':
		return unquote(data, &c.text)
	default:
		return (*lenientArguments)(&c.text).UnmarshalJSON(data)
	}
	var parts []contentPart
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		c.text += part.Text
		c.refusal += part.Refusal
		if part.ImageURL != "" {
			c.images = append(c.images, string(part.ImageURL))
		}
		if len(part.Thinking) > 0 {
			var thoughts content
			if err := thoughts.UnmarshalJSON(part.Thinking); err != nil {
				return err
			}
			c.reasoning += thoughts.text
		}
	}
	return nil
}

// readJSON reads a reply or an event as encoding/json does, with a quarter of the
// allocations. What has another shape is an error that says where.
func readJSON(data []byte, into any) error {
	err := jsonv1.Unmarshal(data, into)
	if err == nil {
		return nil
	}
	var shape *jsonv1.UnmarshalTypeError
	if !errors.As(err, &shape) {
		return err
	}
	want := "a string"
	switch shape.Type.Kind() {
	case reflect.Slice:
		want = "an array"
	case reflect.Struct, reflect.Pointer:
		want = "an object"
	case reflect.Float64:
		want = "a number"
	}
	return fmt.Errorf("%s: got %s, want %s", cmp.Or(shape.Field, "the document"), shape.Value, want)
}
