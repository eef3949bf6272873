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
		`{"name":null}`:                            `name: want string, got null`,
		`{"name":"a","count":"1"}`:                 `count: want integer, got string`,
		`{"name":"a","count":1.5}`:                 `count: want integer, got number 1.5`,
		`{"name":"a","count":1.0}`:                 `count: want integer without fraction or exponent, got 1.0`,
		`{"name":"a","count":1e2}`:                 `count: want integer without fraction or exponent, got 1e2`,
		`{"name":"a","count":1e999999999}`:         `count: want integer without fraction or exponent, got 1e999999999`,
		`{"name":"a","count":1e-999999999}`:        `count: want integer, got number 1e-999999999`,
		`{"name":"a","count":9223372036854775808}`: `count: 9223372036854775808 is out of the range of int`,
		`{"name":"a","small":128}`:                 `small: 128 is too large; want at most 127`,
		`{"name":"a","small":-129}`:                `small: -129 is too small; want at least -128`,
		`{"name":"a","big":-1}`:                    `big: -1 is too small; want at least 0`,
		`{"name":"a","big":18446744073709551616}`:  `big: 18446744073709551616 is out of the range of uint64`,
		`{"name":"a","price":1e39}`:                `price: 1e39 is out of the range of float32`,
		`{"name":"a","quoted":1}`:                  `quoted: want string, got integer`,
		`{"name":"a","quoted":"x"}`:                `quoted: "x" is not allowed; want a string that matches ^-?(0|[1-9][0-9]*)$`,
		`{"name":"a","quoted":"128"}`:              `quoted: "128" is out of the range of int8`,
		`{"name":"a","text":"x"}`:                  `text: "x" is not a JSON string in a string; want it with its quotes, such as "\"text\""`,
		`{"name":"a","unit":"kelvin"}`:             `unit: "kelvin" is not allowed; want one of "celsius", "fahrenheit"`,
		`{"name":"a","unit":3}`:                    `unit: 3 is not allowed; want one of "celsius", "fahrenheit"`,
		`{"name":"a","level":"x"}`:                 `level: "x" is not allowed; want one of "low", "high", null`,
		`{"name":"a","grade":9007199254740992}`:    `grade: 9007199254740992 is not allowed; want one of 1, 9007199254740993`,
		`{"name":"a","address":{"city":1}}`:        `address.city: want string, got integer`,
		`{"name":"a","address":"x"}`:               `address: want object or null, got string`,
		`{"name":"a","items":[{"name":"a"},{"name":"b"},{"unit":"kelvin"}]}`: `items[2].unit: "kelvin" is not allowed; want one of "celsius", "fahrenheit"` + "\n" + `items[2].name: required field is missing`,
		`{"name":"a","items":{}}`:                    `items: want array or null, got object`,
		`{"name":"a","pair":[true]}`:                 `pair: want exactly 2 items, got 1`,
		`{"name":"a","pair":[1,2]}`:                  "pair[0]: want boolean, got integer\npair[1]: want boolean, got integer",
		`{"name":"a","when":"yesterday"}`:            `when: "yesterday" is not a date-time; want RFC 3339 such as "2006-01-02T15:04:05Z"`,
		`{"name":"a","wait":"1s"}`:                   `wait: want integer, got string`,
		`{"name":"a","data":"%"}`:                    `data: "%" is not base64; want the standard alphabet with padding`,
		`{"name":"a","prices":{"per day":"1"}}`:      `prices["per day"]: want number, got string`,
		`{"name":"a","seats":{"x":"a"}}`:             `seats.x: name of the field: "x" is not allowed; want a string that matches`,
		`{"name":"a","seats":{"128":"a"}}`:           `seats.128: name of the field: "128" is out of the range of int8`,
		`{"name":"a","hosts":{"x":true}}`:            `hosts.x: name of the field: "x" is not a valid netip.Addr`,
		`{"name":"a","host":"x"}`:                    `host: "x" is not a valid netip.Addr: ParseAddr("x"): unable to parse IP`,
		`{"name":"a","extra":[{"a":1e999}]}`:         `extra: 1e999 is out of the range of float64`,
		`{"name":"a","number":"1"}`:                  `number: want number, got string`,
		`{"name":"a","tree":1}`:                      `tree: want object or null, got integer`,
		`{"name":"a","tree":{"name":"a","next":{}}}`: `tree.next.name: required field is missing`,
		`{"name":"a","none":{"a":1}}`:                `none.a: unknown field; no fields are allowed`,
		`{"name":"a","name":"b"}`:                    `name: field is given more than once`,
		`{"name":"a","extra":[{"b":1,"b":2}]}`:       `extra[0].b: field is given more than once`,
		``:                                           `not valid JSON: the document is empty`,
		` `:                                          `not valid JSON: the document is empty`,
		`{"name":`:                                   `not valid JSON: unexpected end of JSON input, at byte 8`,
		`{name:1}`:                                   `not valid JSON: invalid character 'n' looking for beginning of object key string, at byte 2`,
		`{"name":"a"} {}`:                            `not valid JSON: there is more after the end of the JSON value, at byte 14`,
		`"text"`:                                     `want object, got string`,
		`{"name":"a","extra":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`:       `values are nested deeper than 256 levels`,
		`{"name":` + strings.Repeat("[", 20000):                                                  `not valid JSON: invalid character '[' exceeded max depth, at byte 10008`,
		`{"name":["` + strings.Repeat("a", 999) + `"],"unit":"` + strings.Repeat("é", 61) + `"}`: "name: want string, got array\n" + `unit: "` + strings.Repeat("é", 60) + `…" is not allowed`,
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

type notNull struct{}

func (notNull) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return errors.New("want no null")
	}
	return nil
}

func TestArgumentsThatDoNotDecodeAreInvalid(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[struct{ A notNull }]())
	require.NoError(t, err)
	assert.NoError(t, s.Validate(json.RawMessage(`{"A":1}`)))
	assert.EqualError(t, s.Validate(json.RawMessage(`{"A":null}`)), "want no null")
}

func TestErrorHoldsAllProblems(t *testing.T) {
	s, err := schema.For(reflect.TypeFor[[]item]())
	require.NoError(t, err)
	err = s.Validate(json.RawMessage(`[1` + strings.Repeat(",1", 39) + `]`))
	var invalid *schema.ValidationError
	require.True(t, errors.As(err, &invalid))
	require.Len(t, invalid.Problems, 40)
	assert.Equal(t, schema.Problem{Path: "[39]", Message: "want object, got integer"}, invalid.Problems[39])
	lines := strings.Split(err.Error(), "\n")
	assert.Len(t, lines, 31)
	assert.Equal(t, "and 10 more problems", lines[30])
}

func TestCallerOwnsTheDocument(t *testing.T) {
	s, err := schema.For(reflect.TypeFor[bool]())
	require.NoError(t, err)
	s.JSON()[0] = 'x'
	assert.Equal(t, `{"type":"boolean"}`, string(s.JSON()))
}

func TestSchemaIsForManyGoroutines(t *testing.T) {
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
