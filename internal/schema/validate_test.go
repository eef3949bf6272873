package schema_test

import (
	"encoding/json"
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/schema"
)

type order struct {
	Name    string              `json:"name"`
	Count   int                 `json:"count,omitempty"`
	Small   int8                `json:"small,omitempty"`
	Big     uint64              `json:"big,omitempty"`
	Price   float32             `json:"price,omitempty"`
	Quoted  int8                `json:"quoted,string,omitempty"`
	Text    string              `json:"text,string,omitempty"`
	Unit    string              `json:"unit,omitempty" enum:"celsius,fahrenheit"`
	Level   *level              `json:"level"`
	Grade   int64               `json:"grade,omitempty" enum:"1,9007199254740993"`
	Address *address            `json:"address"`
	Items   []item              `json:"items,omitempty"`
	Pair    [2]bool             `json:"pair,omitempty"`
	When    time.Time           `json:"when,omitzero"`
	Wait    time.Duration       `json:"wait,omitempty"`
	Data    []byte              `json:"data,omitempty"`
	Prices  map[string]float64  `json:"prices,omitempty"`
	Seats   map[int8]string     `json:"seats,omitempty"`
	Hosts   map[netip.Addr]bool `json:"hosts,omitempty"`
	Host    netip.Addr          `json:"host,omitzero"`
	Extra   any                 `json:"extra,omitempty"`
	Raw     json.RawMessage     `json:"raw,omitempty"`
	Number  json.Number         `json:"number,omitempty"`
	Tree    *node               `json:"tree"`
	None    struct{}            `json:"none,omitzero"`
}

type address struct {
	City string `json:"city"`
}

type item struct {
	Name string `json:"name"`
	Unit string `json:"unit,omitempty" enum:"celsius,fahrenheit"`
}

func TestProblemNamesPlaceAndWhatIsAllowed(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[order]())
	require.NoError(t, err)
	for raw, want := range map[string]string{
		`{}`:                                       `name: required field is missing`,
		`{"name":"a","nam":1}`:                     `nam: unknown field; want one of "name", "count"`,
		`{"name":"a","Count":1}`:                   `Count: unknown field; want one of`,
		`{"name":null}`:                            `name: got null, want a string`,
		`{"name":"a","count":"1"}`:                 `count: got a string, want an integer`,
		`{"name":"a","count":1.5}`:                 `count: got 1.5, want an integer (no fraction or exponent)`,
		`{"name":"a","count":1.0}`:                 `count: got 1.0, want an integer (no fraction or exponent)`,
		`{"name":"a","count":1e2}`:                 `count: got 1e2, want an integer (no fraction or exponent)`,
		`{"name":"a","count":1e999999999}`:         `count: got 1e999999999, want an integer (no fraction or exponent)`,
		`{"name":"a","count":1e-999999999}`:        `count: got 1e-999999999, want an integer (no fraction or exponent)`,
		`{"name":"a","count":9223372036854775808}`: `count: 9223372036854775808 is out of range for int`,
		`{"name":"a","small":128}`:                 `small: got 128, want at most 127`,
		`{"name":"a","small":-129}`:                `small: got -129, want at least -128`,
		`{"name":"a","big":-1}`:                    `big: got -1, want at least 0`,
		`{"name":"a","big":18446744073709551616}`:  `big: 18446744073709551616 is out of range for uint64`,
		`{"name":"a","price":1e39}`:                `price: 1e39 is out of range for float32`,
		`{"name":"a","quoted":1}`:                  `quoted: got an integer, want a string`,
		`{"name":"a","quoted":"x"}`:                `quoted: got "x", want an integer in a string`,
		`{"name":"a","quoted":"128"}`:              `quoted: "128" is out of range for int8`,
		`{"name":"a","text":"x"}`:                  `text: got "x", want a JSON string in a string, with its quotes, such as "\"text\""`,
		`{"name":"a","unit":"kelvin"}`:             `unit: got "kelvin", want one of "celsius", "fahrenheit"`,
		`{"name":"a","unit":3}`:                    `unit: got 3, want one of "celsius", "fahrenheit"`,
		`{"name":"a","level":"x"}`:                 `level: got "x", want one of "low", "high", null`,
		`{"name":"a","grade":9007199254740992}`:    `grade: got 9007199254740992, want one of 1, 9007199254740993`,
		`{"name":"a","address":{"city":1}}`:        `address.city: got an integer, want a string`,
		`{"name":"a","address":"x"}`:               `address: got a string, want an object or null`,
		`{"name":"a","items":[{"name":"a"},{"name":"b"},{"unit":"kelvin"}]}`: `items[2].unit: got "kelvin", want one of "celsius", "fahrenheit"` + "\n" + `items[2].name: required field is missing`,
		`{"name":"a","items":{}}`:                    `items: got an object, want an array or null`,
		`{"name":"a","pair":[true]}`:                 `pair: got an array of length 1, want length 2`,
		`{"name":"a","pair":[1,2]}`:                  "pair[0]: got an integer, want a boolean\npair[1]: got an integer, want a boolean",
		`{"name":"a","when":"yesterday"}`:            `when: got "yesterday", want an RFC 3339 date-time such as "2006-01-02T15:04:05Z"`,
		`{"name":"a","wait":"1s"}`:                   `wait: got a string, want an integer`,
		`{"name":"a","data":"%"}`:                    `data: got "%", want base64 in the standard alphabet with padding`,
		`{"name":"a","prices":{"per day":"1"}}`:      `prices["per day"]: got a string, want a number`,
		`{"name":"a","seats":{"x":"a"}}`:             `seats.x: name of the field: got "x", want an integer in a string`,
		`{"name":"a","seats":{"128":"a"}}`:           `seats.128: name of the field: "128" is out of range for int8`,
		`{"name":"a","hosts":{"x":true}}`:            `hosts.x: name of the field: "x" is not a valid netip.Addr`,
		`{"name":"a","host":"x"}`:                    `host: "x" is not a valid netip.Addr: ParseAddr("x"): unable to parse IP`,
		`{"name":"a","extra":[{"a":1e999}]}`:         `extra: 1e999 is out of range for float64`,
		`{"name":"a","number":"1"}`:                  `number: got a string, want a number`,
		`{"name":"a","tree":1}`:                      `tree: got an integer, want an object or null`,
		`{"name":"a","tree":{"name":"a","next":{}}}`: `tree.next.name: required field is missing`,
		`{"name":"a","none":{"a":1}}`:                `none.a: unknown field; want no fields`,
		`{"name":"a","name":"b"}`:                    `name: field is given more than once`,
		`{"name":"a","extra":[{"b":1,"b":2}]}`:       `extra[0].b: field is given more than once`,
		``:                                           `not valid JSON: the document is empty`,
		` `:                                          `not valid JSON: the document is empty`,
		`{"name":`:                                   `not valid JSON at byte 8: unexpected end of JSON input`,
		`{name:1}`:                                   `not valid JSON at byte 2: invalid character 'n' looking for beginning of object key string`,
		`{"name":"a"} {}`:                            `not valid JSON at byte 14: unexpected data after the JSON value`,
		`"text"`:                                     `got a string, want an object`,
		`{"name":"a","extra":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`:       `values are nested deeper than 256 levels`,
		`{"name":` + strings.Repeat("[", 20000):                                                  `values are nested deeper than 256 levels`,
		`{"name":["` + strings.Repeat("a", 999) + `"],"unit":"` + strings.Repeat("é", 61) + `"}`: "name: got an array, want a string\n" + `unit: got "` + strings.Repeat("é", 60) + `…", want one of`,
	} {
		t.Run(raw[:min(len(raw), 60)], func(t *testing.T) {
			err := s.Validate(json.RawMessage(raw))
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), want), "got  %s\nwant %s", err, want)
		})
	}
}

func TestValidDocumentHasNoProblems(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[order]())
	require.NoError(t, err)
	for _, raw := range []string{
		` {"name":"a"} `,
		`{"name":"a","level":null,"address":null,"items":null,"tree":null,"prices":null,"data":null,"extra":null,"raw":null}`,
		`{"name":"a","count":9223372036854775807,"big":18446744073709551615,"grade":9007199254740993,"quoted":"-128","text":"\"a\""}`,
		`{"name":"a","price":1e-300,"number":1e999999999,"extra":{"a":1e-999},"raw":[{},1.50,1e999]}`,
		`{"name":"a","when":"2006-01-02T15:04:05.999+01:00","wait":1000,"data":"YQ==","host":"::1","hosts":{"::1":true},"seats":{"-1":"a"}}`,
	} {
		assert.NoError(t, s.Validate(json.RawMessage(raw)), raw)
		assert.NoError(t, json.Unmarshal([]byte(raw), new(order)), raw)
	}
}

func TestOmitemptyFieldIsNotRequired(t *testing.T) {
	type args struct {
		A string `json:"a,omitempty"`
		B int    `json:"b,omitzero"`
		C *int   `json:"c"`
	}
	s, err := schema.ForArguments(reflect.TypeFor[args]())
	require.NoError(t, err)
	assert.NoError(t, s.Validate(json.RawMessage(`{}`)))
}

func TestErrorContainsAllProblems(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[struct{ Items []item }]())
	require.NoError(t, err)
	err = s.Validate(json.RawMessage(`{"Items":[1` + strings.Repeat(",1", 39) + `]}`))
	var invalid *schema.ValidationError
	require.True(t, errors.As(err, &invalid))
	require.Len(t, invalid.Problems, 40)
	assert.Equal(t, schema.Problem{Path: "Items[39]", Message: "got an integer, want an object"}, invalid.Problems[39])
	lines := strings.Split(err.Error(), "\n")
	assert.Len(t, lines, 31)
	assert.Equal(t, "and 10 more problems", lines[30])
}

func TestCallerOwnsTheDocument(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[map[string]any]())
	require.NoError(t, err)
	s.JSON()[0] = 'x'
	assert.Equal(t, `{"type":"object","additionalProperties":true}`, string(s.JSON()))
}

func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[order]())
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 20 {
				assert.NoError(t, s.Validate(json.RawMessage(`{"name":"a","tree":{"name":"b","next":{"name":"c"}}}`)))
				assert.Error(t, s.Validate(json.RawMessage(`{"name":"a","tree":{"name":"b","next":{"name":1}}}`)))
			}
		})
	}
	wg.Wait()
}
