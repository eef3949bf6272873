package schema

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

type leg struct {
	To   string `json:"to"`
	Note string `json:"note,omitempty"`
}

type plan struct {
	Name  string   `json:"name"`
	Size  int      `json:"size,omitempty"`
	Kind  string   `json:"kind,omitempty" enum:"long,short"`
	Legs  []leg    `json:"legs"`
	First leg      `json:"first,omitzero"`
	Tags  []string `json:"tags,omitempty"`
	Rest  *plan    `json:"rest,omitempty"`
}

func TestAStrictSchemaRequiresEveryPropertyAndAllowsNull(t *testing.T) {
	s, err := ForArguments(reflect.TypeFor[leg]())
	require.NoError(t, err)
	strict, err := NewStrict(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","properties":{"to":{"type":"string"},"note":{"type":["string","null"]}},"required":["to","note"],"additionalProperties":false}`, string(strict.JSON()))
	require.NoError(t, strict.Validate([]byte(`{"to":"Oslo","note":null}`)))
	require.NoError(t, strict.Validate([]byte(`{"to":"Oslo"}`)), "arguments from a service that does not enforce the schema")
	require.ErrorContains(t, strict.Validate([]byte(`{"to":null,"note":null}`)), "to: got null, want a string")
}

func TestNullsOfAbsentPropertiesAreRemovedAtAnyDepth(t *testing.T) {
	s, err := ForArguments(reflect.TypeFor[plan]())
	require.NoError(t, err)
	strict, err := NewStrict(s)
	require.NoError(t, err)
	document := json.RawMessage(`{"name":"a","size":null,"kind":null,"legs":[{"to":"x","note":null}],"first":null,"tags":null,
		"rest":{"name":"null","size":2,"kind":"long","legs":[],"first":{"to":"y","note":null},"tags":["t"],"rest":null}}`)
	require.NoError(t, strict.Validate(document))
	var got plan
	require.NoError(t, json.Unmarshal(strict.Plain(document), &got))
	require.Equal(t, plan{Name: "a", Legs: []leg{{To: "x"}}, Rest: &plan{Name: "null", Size: 2, Kind: "long", Legs: []leg{}, First: leg{To: "y"}, Tags: []string{"t"}}}, got)
	again, err := Parse(strict.JSON())
	if err == nil { // a type that contains itself results in a recursive reference
		require.NoError(t, again.Validate(document))
	}
}

func TestWhatServicesDoNotEnforceIsNamed(t *testing.T) {
	for document, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"object","additionalProperties":{"type":"string"}}}}`: "a: its keys are unknown",
		`{"type":"object"}`:                                                "the document: its keys are unknown",
		`{"type":"object","properties":{"a":{}}}`:                          "a: any value is allowed",
		`{"type":"object","properties":{"a":true}}`:                        "a: any value is allowed",
		`{"type":"object","properties":{"a":{"type":"array"}}}`:            "a: items of any type are allowed",
		`{"type":"object","properties":{"a":{"oneOf":[{"type":"null"}]}}}`: `a: services do not enforce "oneOf"`,
		`{"type":"object","properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"not":{}}}}}}}`: `a[].b: services do not enforce "not"`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/d"}},"$defs":{"d":{"type":"object"}}}`:                     "d: its keys are unknown",
	} {
		s, err := Parse([]byte(document))
		require.NoError(t, err, document)
		_, err = NewStrict(s)
		require.ErrorContains(t, err, want, document)
	}
	empty, err := Parse([]byte(`{"type":"object","properties":{},"additionalProperties":false}`))
	require.NoError(t, err)
	_, err = NewStrict(empty)
	require.NoError(t, err)
}

func TestReferencesAndChoicesMayBeNull(t *testing.T) {
	s, err := Parse([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d"},"b":{"anyOf":[{"type":"string"},{"type":"integer"}]},"c":{"const":1},"e":{"enum":["x"]}},
		"$defs":{"d":{"type":"object","properties":{"n":{"type":"integer"}}}}}`))
	require.NoError(t, err)
	strict, err := NewStrict(s)
	require.NoError(t, err)
	require.JSONEq(t, `{"type":"object","properties":{"a":{"anyOf":[{"$ref":"#/$defs/d"},{"type":"null"}]},"b":{"anyOf":[{"type":"string"},{"type":"integer"},{"type":"null"}]},
		"c":{"anyOf":[{"const":1},{"type":"null"}]},"e":{"enum":["x",null]}},"required":["a","b","c","e"],"additionalProperties":false,
		"$defs":{"d":{"type":"object","properties":{"n":{"type":["integer","null"]}},"required":["n"],"additionalProperties":false}}}`, string(strict.JSON()))
	require.JSONEq(t, `{"a":{}}`, string(strict.Plain([]byte(`{"a":{"n":null},"b":null,"c":null,"e":null}`))))
	require.NoError(t, strict.Validate([]byte(`{"a":{"n":null},"b":null,"c":null,"e":null}`)))
}

func FuzzStrict(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"type":"string"}}}`), []byte(`{"a":null}`))
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#"}},"additionalProperties":false}`), []byte(`{"a":{"a":null}}`))
	f.Fuzz(func(t *testing.T, doc, value []byte) {
		s, err := Parse(doc)
		if err != nil {
			return
		}
		strict, err := NewStrict(s)
		if err != nil {
			return
		}
		if s.Validate(value) == nil && strict.Validate(value) != nil {
			t.Fatalf("%s fits %s, but not its strict form", value, doc)
		}
	})
}
