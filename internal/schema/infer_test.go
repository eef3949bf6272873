package schema_test

import (
	"encoding/json"
	"log/slog"
	"math/big"
	"net/netip"
	"reflect"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/schema"
)

type (
	level     string
	shade     struct{ name string }
	priority  int
	noValues  string
	grade     struct{ value any }
	enumChain []enumChain
	writeJSON struct{ A int }
	readJSON  struct{ A int }
	writeText struct{ A int }

	node struct {
		Name     string  `json:"name"`
		Next     *node   `json:"next"`
		Children []node  `json:"children,omitempty"`
		ByName   nodeMap `json:"by_name,omitempty"`
	}
	nodeMap map[string]node
	wrapper struct {
		Left  node      `json:"left"`
		Right *node     `json:"right"`
		Box   box[node] `json:"box"`
	}
	box[T any] struct {
		Item  T       `json:"item"`
		Inner *box[T] `json:"inner"`
	}
	chain       []chain
	pointerLoop *pointerLoop
	methods     interface{ Do() }
	withMethods struct{ M methods }
	embedsLevel struct{ level }
	EmbedLevel  struct{ Level }
	Level       string
	inner       struct {
		City string `json:"city"`
	}
	east struct{ City string }
	West struct {
		City int
		Zip  string
	}
	Inner struct {
		City string `json:"city"`
		Zip  string `json:"zip"`
	}
)

func (level) JSONSchemaEnum() []any          { return []any{"low", "high"} }
func (Level) JSONSchemaEnum() []any          { return []any{"low", "high"} }
func (*priority) JSONSchemaEnum() []any      { return []any{1, uint64(1 << 63)} }
func (noValues) JSONSchemaEnum() []any       { return nil }
func (shade) JSONSchemaEnum() []any          { return []any{shade{"dark"}, shade{"light"}} }
func (s shade) MarshalText() ([]byte, error) { return []byte(s.name), nil }
func (s *shade) UnmarshalText(text []byte) error {
	s.name = string(text)
	return nil
}
func (grade) JSONSchemaEnum() []any             { return []any{grade{1}, grade{"none"}} }
func (enumChain) JSONSchemaEnum() []any         { return []any{enumChain{}} }
func (g grade) MarshalJSON() ([]byte, error)    { return json.Marshal(g.value) }
func (g *grade) UnmarshalJSON(raw []byte) error { return json.Unmarshal(raw, &g.value) }
func (writeJSON) MarshalJSON() ([]byte, error)  { return []byte(`[1]`), nil }
func (*readJSON) UnmarshalJSON([]byte) error    { return nil }
func (writeText) MarshalText() ([]byte, error)  { return []byte("text"), nil }

const anything = `{"description":"any JSON value"}`

// in returns a struct type with a single field, V, of type t.
func in(t reflect.Type) reflect.Type {
	return reflect.StructOf([]reflect.StructField{{Name: "V", Type: t}})
}

// propertyV returns the schema of the field V, and the definitions.
func propertyV(t *testing.T, s *schema.Schema) (v string, definitions map[string]json.RawMessage) {
	t.Helper()
	var doc struct {
		Properties struct{ V json.RawMessage }
		Defs       map[string]json.RawMessage `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(s.JSON(), &doc))
	return string(doc.Properties.V), doc.Defs
}

func TestTypeHasItsSchema(t *testing.T) {
	for name, tt := range map[string]struct {
		typ  reflect.Type
		want string
	}{
		"bool":                 {reflect.TypeFor[bool](), `{"type":"boolean"}`},
		"string":               {reflect.TypeFor[string](), `{"type":"string"}`},
		"int":                  {reflect.TypeFor[int](), `{"type":"integer"}`},
		"int8":                 {reflect.TypeFor[int8](), `{"type":"integer","minimum":-128,"maximum":127}`},
		"int32":                {reflect.TypeFor[int32](), `{"type":"integer","minimum":-2147483648,"maximum":2147483647}`},
		"int64":                {reflect.TypeFor[int64](), `{"type":"integer"}`},
		"uint":                 {reflect.TypeFor[uint](), `{"type":"integer","minimum":0}`},
		"uint8":                {reflect.TypeFor[uint8](), `{"type":"integer","minimum":0,"maximum":255}`},
		"uint64":               {reflect.TypeFor[uint64](), `{"type":"integer","minimum":0}`},
		"float32":              {reflect.TypeFor[float32](), `{"type":"number"}`},
		"float64":              {reflect.TypeFor[float64](), `{"type":"number"}`},
		"pointer":              {reflect.TypeFor[*string](), `{"type":["string","null"]}`},
		"two pointers":         {reflect.TypeFor[**string](), `{"type":["string","null"]}`},
		"slice":                {reflect.TypeFor[[]string](), `{"type":"array","items":{"type":"string"}}`},
		"array":                {reflect.TypeFor[[2]bool](), `{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":2}`},
		"bytes":                {reflect.TypeFor[[]byte](), `{"type":"string","contentEncoding":"base64"}`},
		"array of bytes":       {reflect.TypeFor[[1]byte](), `{"type":"array","items":{"type":"integer","minimum":0,"maximum":255},"minItems":1,"maxItems":1}`},
		"map":                  {reflect.TypeFor[map[string]int](), `{"type":"object","additionalProperties":{"type":"integer"}}`},
		"map of anything":      {reflect.TypeFor[map[string]any](), `{"type":"object","additionalProperties":true}`},
		"integer keys":         {reflect.TypeFor[map[int]bool](), `{"type":"object","additionalProperties":{"type":"boolean"},"propertyNames":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)$","description":"integer in a string"}}`},
		"unsigned keys":        {reflect.TypeFor[map[uint]bool](), `{"type":"object","additionalProperties":{"type":"boolean"},"propertyNames":{"type":"string","pattern":"^(0|[1-9][0-9]*)$","description":"unsigned integer in a string"}}`},
		"text keys":            {reflect.TypeFor[map[netip.Addr]bool](), `{"type":"object","additionalProperties":{"type":"boolean"},"propertyNames":{"type":"string"}}`},
		"empty struct":         {reflect.TypeFor[struct{}](), `{"type":"object","properties":{},"additionalProperties":false}`},
		"any":                  {reflect.TypeFor[any](), anything},
		"pointer to any":       {reflect.TypeFor[*any](), anything},
		"raw message":          {reflect.TypeFor[json.RawMessage](), anything},
		"number":               {reflect.TypeFor[json.Number](), `{"type":"number"}`},
		"time":                 {reflect.TypeFor[time.Time](), `{"type":"string","format":"date-time"}`},
		"pointer to time":      {reflect.TypeFor[*time.Time](), `{"type":["string","null"],"format":"date-time"}`},
		"duration":             {reflect.TypeFor[time.Duration](), `{"type":"integer","description":"duration in nanoseconds"}`},
		"big integer":          {reflect.TypeFor[*big.Int](), `{"type":["integer","null"]}`},
		"log level":            {reflect.TypeFor[slog.Level](), `{"type":"string"}`},
		"text methods":         {reflect.TypeFor[netip.Addr](), `{"type":"string"}`},
		"reads JSON":           {reflect.TypeFor[readJSON](), anything},
		"enum":                 {reflect.TypeFor[level](), `{"type":"string","enum":["low","high"]}`},
		"enum or null":         {reflect.TypeFor[*level](), `{"type":["string","null"],"enum":["low","high",null]}`},
		"enum of integers":     {reflect.TypeFor[priority](), `{"type":"integer","enum":[1,9223372036854775808]}`},
		"enum of texts":        {reflect.TypeFor[shade](), `{"type":"string","enum":["dark","light"]}`},
		"enums":                {reflect.TypeFor[[]level](), `{"type":"array","items":{"type":"string","enum":["low","high"]}}`},
		"enum of JSON":         {reflect.TypeFor[grade](), `{"enum":[1,"none"]}`},
		"enum of JSON or null": {reflect.TypeFor[*grade](), `{"enum":[1,"none",null]}`},
		"promoted enum":        {reflect.TypeFor[EmbedLevel](), `{"type":"object","properties":{"Level":{"type":"string","enum":["low","high"]}},"required":["Level"],"additionalProperties":false}`},
		"unexported embedded type other than a struct": {reflect.TypeFor[embedsLevel](), `{"type":"object","properties":{},"additionalProperties":false}`},
		"slice of itself": {reflect.TypeFor[chain](), `{"$ref":"#/$defs/chain"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.ForArguments(in(tt.typ))
			require.NoError(t, err)
			got, _ := propertyV(t, s)
			assert.JSONEq(t, tt.want, got)
		})
	}
}

func TestFieldHasItsSchema(t *testing.T) {
	for name, tt := range map[string]struct {
		typ        reflect.Type
		properties string
		required   []string
	}{
		"plain": {
			reflect.TypeFor[struct{ A, B string }](),
			`{"A":{"type":"string"},"B":{"type":"string"}}`,
			[]string{"A", "B"},
		},
		"skipped": {reflect.TypeFor[struct {
			A string `json:"-"`
			B string `json:"-,"`
			c string
		}](), `{"-":{"type":"string"}}`, []string{"-"}},
		"name that encoding/json refuses": {reflect.TypeFor[struct {
			A string `json:"a\"b"`
		}](), `{"A":{"type":"string"}}`, []string{"A"}},
		"description": {reflect.TypeFor[struct {
			A string `jsonschema:"the city, to look up = all"`
		}](), `{"A":{"type":"string","description":"the city, to look up = all"}}`, []string{"A"}},
		"description of anything": {reflect.TypeFor[struct {
			A any `jsonschema:"what to keep"`
		}](), `{"A":{"description":"what to keep"}}`, []string{"A"}},
		"description of a duration": {reflect.TypeFor[struct {
			A time.Duration `jsonschema:"how long to wait"`
		}](), `{"A":{"type":"integer","description":"how long to wait (duration in nanoseconds)"}}`, []string{"A"}},
		"optional": {reflect.TypeFor[struct {
			A string    `json:",omitempty"`
			B time.Time `json:",omitzero"`
			C *bool
		}](), `{"A":{"type":"string"},"B":{"type":"string","format":"date-time"},"C":{"type":["boolean","null"]}}`, nil},
		"optional slices and maps": {reflect.TypeFor[struct {
			A []bool          `json:",omitempty"`
			B map[string]bool `json:",omitempty"`
			C []byte          `json:",omitempty"`
			D [1]bool         `json:",omitempty"`
		}](), `{
			"A":{"type":["array","null"],"items":{"type":"boolean"}},
			"B":{"type":["object","null"],"additionalProperties":{"type":"boolean"}},
			"C":{"type":["string","null"],"contentEncoding":"base64"},
			"D":{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":1}}`, nil},
		"enum": {reflect.TypeFor[struct {
			A string    `enum:"a, b"`
			B int8      `enum:"-1,2"`
			C *float64  `enum:"0.5,2"`
			D []string  `enum:"a"`
			E [1][]*int `enum:"1"`
			F level     `enum:"low"`
		}](), `{
			"A":{"type":"string","enum":["a","b"]},
			"B":{"type":"integer","minimum":-128,"maximum":127,"enum":[-1,2]},
			"C":{"type":["number","null"],"enum":[0.5,2,null]},
			"D":{"type":"array","items":{"type":"string","enum":["a"]}},
			"E":{"type":"array","minItems":1,"maxItems":1,"items":{"type":"array","items":{"type":["integer","null"],"enum":[1,null]}}},
			"F":{"type":"string","enum":["low"]}}`, []string{"A", "B", "D", "E", "F"}},
		"string option": {
			reflect.TypeFor[struct {
				A int     `json:",string"`
				B *bool   `json:",string"`
				C float64 `json:",string"`
				D string  `json:",string"`
				E []int   `json:",string"`
				F uint    `json:",string" enum:"1,2"`
			}](), `{
			"A":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)$","description":"integer in a string"},
			"B":{"type":["string","null"],"enum":["true","false",null]},
			"C":{"type":"string","pattern":"^-?(0|[1-9][0-9]*)(\\.[0-9]+)?([eE][+-]?[0-9]+)?$","description":"number in a string"},
			"D":{"type":"string","description":"JSON string in a string"},
			"E":{"type":"array","items":{"type":"integer"}},
			"F":{"type":"string","pattern":"^(0|[1-9][0-9]*)$","description":"unsigned integer in a string","enum":["1","2"]}}`,
			[]string{"A", "C", "D", "E", "F"},
		},
		"embedded": {
			reflect.TypeFor[struct {
				inner
				Inner `json:"named"`
			}](), `{"city":{"type":"string"},"named":{"type":"object","properties":{"city":{"type":"string"},"zip":{"type":"string"}},"required":["city","zip"],"additionalProperties":false}}`,
			[]string{"city", "named"},
		},
		"embedded pointer": {reflect.TypeFor[struct {
			*Inner
			Zip int `json:"zip"`
		}](), `{"city":{"type":"string"},"zip":{"type":"integer"}}`, []string{"zip"}},
		"names in conflict": {reflect.TypeFor[struct {
			east
			West
		}](), `{"Zip":{"type":"string"}}`, []string{"Zip"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.ForArguments(tt.typ)
			require.NoError(t, err)
			var got struct {
				Type       string
				Properties json.RawMessage
				Required   []string
			}
			require.NoError(t, json.Unmarshal(s.JSON(), &got))
			assert.Equal(t, "object", got.Type)
			assert.JSONEq(t, tt.properties, string(got.Properties))
			assert.Equal(t, tt.required, got.Required)
		})
	}
}

func TestTypeThatContainsItselfIsDescribedByReference(t *testing.T) {
	s, err := schema.ForArguments(reflect.TypeFor[node]())
	require.NoError(t, err)
	assert.JSONEq(t, `{
		"type":"object","additionalProperties":false,"required":["name"],
		"properties":{
			"name":{"type":"string"},
			"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]},
			"children":{"type":["array","null"],"items":{"$ref":"#"}},
			"by_name":{"type":["object","null"],"additionalProperties":{"$ref":"#"}}}}`, string(s.JSON()))

	s, err = schema.ForArguments(reflect.TypeFor[wrapper]())
	require.NoError(t, err)
	var doc struct {
		Properties map[string]json.RawMessage
		Defs       map[string]json.RawMessage `json:"$defs"`
	}
	require.NoError(t, json.Unmarshal(s.JSON(), &doc))
	assert.JSONEq(t, `{"$ref":"#/$defs/node"}`, string(doc.Properties["left"]))
	assert.JSONEq(t, `{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}`, string(doc.Properties["right"]))
	assert.Len(t, doc.Defs, 2)
	assert.NoError(t, s.Validate(json.RawMessage(`{"left":{"name":"l","next":{"name":"n"}},"right":null,"box":{"item":{"name":"b"}}}`)))
	assert.EqualError(t, s.Validate(json.RawMessage(`{"left":{"name":"l","next":{"name":1}},"box":{"item":{"name":"b","children":[{}]}}}`)),
		"left.next.name: got an integer, want a string\n"+
			"box.item.children[0].name: required field is missing")
}

func TestPropertiesAreInFieldOrderAtEveryCall(t *testing.T) {
	type args struct {
		Zulu, Alpha, Mike string
		Inner
		Beta node
	}
	want := `{"type":"object","properties":{"Zulu":{"type":"string"},"Alpha":{"type":"string"},"Mike":{"type":"string"},"city":{"type":"string"},"zip":{"type":"string"},"Beta":{"$ref":"#/$defs/node"}},"$defs":{"node":`
	first, err := schema.ForArguments(reflect.TypeFor[args]())
	require.NoError(t, err)
	assert.Contains(t, string(first.JSON()), want)
	for range 20 {
		again, err := schema.ForArguments(reflect.TypeFor[args]())
		require.NoError(t, err)
		assert.Equal(t, string(first.JSON()), string(again.JSON()))
	}
}

func TestTypeWithoutSchemaIsRefusedByFieldPath(t *testing.T) {
	for name, tt := range map[string]struct {
		typ  reflect.Type
		want []string
	}{
		"no type":        {nil, []string{"no type"}},
		"chan":           {reflect.TypeFor[struct{ A chan int }](), []string{"field A: chan int has no schema", "want a bool"}},
		"func":           {reflect.TypeFor[struct{ A struct{ B []func() } }](), []string{"field A.B[]: func() has no schema", "want a bool"}},
		"complex":        {reflect.TypeFor[struct{ A map[string]complex128 }](), []string{"field A[]: complex128 has no schema"}},
		"unsafe pointer": {reflect.TypeFor[struct{ A *unsafe.Pointer }](), []string{"field A: unsafe.Pointer has no schema"}},
		"map key":        {reflect.TypeFor[struct{ A map[bool]int }](), []string{"field A: map[bool]int has keys", "want strings, integers"}},
		"pointer loop":   {reflect.TypeFor[struct{ A pointerLoop }](), []string{"field A:", "points to itself"}},
		"description": {reflect.TypeFor[struct {
			A int `jsonschema:"enum=a"`
		}](), []string{"field A:", "WORD=", `enum:"a,b"`}},
		"empty desc.": {reflect.TypeFor[struct {
			A int `jsonschema:""`
		}](), []string{"field A:", "tag is empty"}},
		"enum of bool": {reflect.TypeFor[struct {
			A bool `enum:"true"`
		}](), []string{"field A:", "works on strings, integers and numbers"}},
		"enum of structs": {reflect.TypeFor[struct {
			A struct{} `enum:"a"`
		}](), []string{"field A:", "works on strings, integers and numbers"}},
		"enum no integer": {reflect.TypeFor[struct {
			A int `enum:"1,x"`
		}](), []string{"field A:", `enum value "x" is not an integer`}},
		"enum too large": {reflect.TypeFor[struct {
			A int8 `enum:"1,128"`
		}](), []string{"field A:", `enum value "128": got 128, want at most 127`}},
		"enum not a text": {reflect.TypeFor[struct {
			A netip.Addr `enum:"x"`
		}](), []string{"field A:", `enum value "x": "x" is not a valid netip.Addr`}},
		"enum empty value": {reflect.TypeFor[struct {
			A string `enum:"a,,b"`
		}](), []string{"field A:", "has an empty value"}},
		"enum twice": {reflect.TypeFor[struct {
			A string `enum:"a,a"`
		}](), []string{"field A:", "has the value a twice"}},
		"enum of itself": {reflect.TypeFor[struct{ A *enumChain }](), []string{"field A[]:", "a type that contains itself cannot be an enum"}},
		"enum no values": {reflect.TypeFor[struct{ A noValues }](), []string{"field A:", "lists no values"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.ForArguments(tt.typ)
			for _, want := range tt.want {
				assert.ErrorContains(t, err, want)
			}
		})
	}
}

func TestArgumentsAreAnObject(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct{}](), reflect.TypeFor[inner](), reflect.TypeFor[**inner](), reflect.TypeFor[node](),
		reflect.TypeFor[map[string]any](), reflect.TypeFor[*nodeMap](), reflect.TypeFor[readJSON](), reflect.TypeFor[writeText](),
	} {
		s, err := schema.ForArguments(typ)
		require.NoError(t, err, typ)
		var doc struct{ Type string }
		require.NoError(t, json.Unmarshal(s.JSON(), &doc), typ)
		assert.Equal(t, "object", doc.Type, typ)
		assert.ErrorContains(t, s.Validate(json.RawMessage(`null`)), "got null, want an object", typ)
		assert.ErrorContains(t, s.Validate(json.RawMessage(`[]`)), "got an array, want an object", typ)
	}
}

func TestArgumentsThatAreNotAnObjectAreRefused(t *testing.T) {
	for want, typ := range map[string]reflect.Type{
		"no type; want a struct":                       nil,
		"int is not a JSON object":                     reflect.TypeFor[int](),
		"[]string is not a JSON object":                reflect.TypeFor[[]string](),
		"map[int]string is not a JSON object":          reflect.TypeFor[map[int]string](),
		"interface {} is not a JSON object":            reflect.TypeFor[any](),
		"time.Time is a JSON string":                   reflect.TypeFor[time.Time](),
		"schema_test.shade is a JSON string":           reflect.TypeFor[shade](),
		"field M: interface schema_test.methods has":   reflect.TypeFor[withMethods](),
		"field City: embedded pointer to the unexport": reflect.TypeFor[struct{ *inner }](),
		"field A: the json tag's string option does": reflect.TypeFor[struct {
			A slogLevel `json:",string"`
		}](),
	} {
		_, err := schema.ForArguments(typ)
		assert.ErrorContains(t, err, want)
	}
}

type slogLevel int

func (*slogLevel) UnmarshalText([]byte) error { return nil }

func TestArgumentsAreDescribedAsTheyAreRead(t *testing.T) {
	type args struct {
		A writeJSON
		B writeText
	}
	s, err := schema.ForArguments(reflect.TypeFor[args]())
	require.NoError(t, err)
	assert.NoError(t, s.Validate(json.RawMessage(`{"A":{"A":1},"B":{"A":2}}`)))
	assert.Error(t, s.Validate(json.RawMessage(`{"A":[1],"B":"text"}`)))
}
