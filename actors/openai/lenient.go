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

// Services use different JSON types for the same fields. The types below accept all of them.

// A lenient value ignores data of an unexpected type. It is used for optional parts of
// an answer.
type lenient[T any] struct{ value T }

// UnmarshalJSON accepts any value.
func (l *lenient[T]) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &l.value) != nil {
		l.value = *new(T)
	}
	return nil
}

// A lenientText accepts a string, a number or a boolean. null is empty.
type lenientText string

// UnmarshalJSON implements [json.Unmarshaler].
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

// unquote decodes a string. Most strings in streams have no escapes and can be used as they are. A
// string equal to *into needs no allocation.
func unquote(data []byte, into *string) error {
	if bytes.IndexByte(data, '\\') >= 0 || !utf8.Valid(data) {
		return jsonv1.Unmarshal(data, into)
	}
	if text := data[1 : len(data)-1]; string(text) != *into {
		*into = string(text)
	}
	return nil
}

// A lenientInt accepts an integer, including one in the form 12.0 or "12". null is zero.
type lenientInt int

// UnmarshalJSON accepts a number or a string that contains one.
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

// A lenientCount is a lenientInt that counts tokens. A negative number, such as -1 for an unknown
// count, becomes zero, since no answer may lower a run's usage.
type lenientCount int

// UnmarshalJSON accepts the same values as a lenientInt.
func (c *lenientCount) UnmarshalJSON(data []byte) error {
	var n lenientInt
	err := n.UnmarshalJSON(data)
	*c = lenientCount(max(0, n))
	return err
}

// A lenientCost accepts a number or, as sent by Perplexity, an object with the parts of
// the cost and their total. Anything else becomes zero, since
// an unreadable price is no reason to discard an answer.
type lenientCost float64

// UnmarshalJSON accepts any value.
func (c *lenientCost) UnmarshalJSON(data []byte) error {
	var parts struct {
		Total float64 `json:"total_cost"`
	}
	number := float64(0)
	if json.Unmarshal(data, &number) != nil && json.Unmarshal(data, &parts) == nil {
		number = parts.Total
	}
	*c = lenientCost(max(0, number))
	return nil
}

// A lenientIndex is an integer stored as text, since it is used only as an identifier. null is
// empty.
type lenientIndex string

// UnmarshalJSON accepts a number or a string that contains one.
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

// A lenientArguments accepts the arguments of a tool call either as a string that contains JSON or
// as a JSON value. null is empty.
type lenientArguments string

// UnmarshalJSON accepts either form.
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

// content is the content of a message: a string or a list of parts, which may include
// reasoning. If a JSON document was requested, some services send the document as a
// JSON value.
type content struct {
	text, reasoning, refusal string
	images                   []string
}

type contentPart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	Thinking json.RawMessage `json:"thinking"` // string or list of parts
	ImageURL imageURL        `json:"image_url"`
}

// UnmarshalJSON accepts either form. null is empty.
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

// readJSON decodes a reply or an event as encoding/json does, but with a quarter of the
// allocations. The error for an unexpected type names the field.
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
