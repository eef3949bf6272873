package schema_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/schema"
)

// document returns a schema of an object with the given keywords.
func document(keywords string) []byte { return []byte(`{"type":"object",` + keywords + `}`) }

// property returns the schema of an object whose property v has the given schema.
func property(v string) []byte { return document(`"properties":{"v":` + v + `}`) }

func TestDocumentKeepsItsOrder(t *testing.T) {
	s, err := schema.Parse([]byte(`{ "required": ["b"], "type": "object", "properties": {"b": {}, "a": {"x-mine": 1}} }`))
	require.NoError(t, err)
	assert.Equal(t, `{"required":["b"],"type":"object","properties":{"b":{},"a":{"x-mine":1}}}`, string(s.JSON()))
	s.JSON()[0] = 'x'
	assert.True(t, json.Valid(s.JSON()))
}

// The test pins down how the library applies the keywords that servers use. An upgrade that changes
// this also changes which arguments tools accept.
func TestDocumentIsAppliedToArguments(t *testing.T) {
	const draft7 = `"$schema":"http://json-schema.org/draft-07/schema#",`
	for name, tt := range map[string]struct {
		doc       []byte
		raw, want string
	}{
		"not an object":            {document(`"title":"a"`), `1`, `does not match the schema: type: 1 has type "integer", want "object"`},
		"null":                     {document(`"title":"a"`), `null`, `does not match the schema: type`},
		"additional is allowed":    {property(`{}`), `{"w":1}`, ``},
		"no additional":            {document(`"properties":{"v":{}},"additionalProperties":false`), `{"w":1}`, `does not match the schema: unexpected additional properties ["w"]`},
		"additional":               {document(`"additionalProperties":{"type":"string"}`), `{"v":1}`, `does not match the schema at /additionalProperties: type: 1 has type "integer", want "string"`},
		"required":                 {document(`"required":["v"]`), `{}`, `does not match the schema: required: missing properties: ["v"]`},
		"type":                     {property(`{"type":"string"}`), `{"v":1}`, `does not match the schema at /properties/v: type: 1 has type "integer", want "string"`},
		"types":                    {property(`{"type":["string","null"]}`), `{"v":null}`, ``},
		"integer with fraction":    {property(`{"type":"integer"}`), `{"v":1.0}`, ``},
		"no integer":               {property(`{"type":"integer"}`), `{"v":1.5}`, `does not match the schema at /properties/v: type`},
		"beyond a float":           {property(`{"type":"number","minimum":0}`), `{"v":1e999}`, ``},
		"far below zero":           {property(`{"type":"number","minimum":0}`), `{"v":-1e999}`, `does not match the schema at /properties/v: minimum`},
		"true":                     {property(`true`), `{"v":1}`, ``},
		"false":                    {property(`false`), `{"v":1}`, `does not match the schema at /properties/v: not`},
		"enum":                     {property(`{"enum":["a",1]}`), `{"v":"b"}`, `does not match the schema at /properties/v: enum: b does not equal any of: [a 1]`},
		"enum of equal value":      {property(`{"enum":[1,{"a":[1,2],"b":2}]}`), `{"v":{"b":2.0,"a":[10e-1,2]}}`, ``},
		"const":                    {property(`{"const":"a"}`), `{"v":"b"}`, `does not match the schema at /properties/v: const`},
		"const null":               {property(`{"const":null}`), `{"v":1}`, `does not match the schema at /properties/v: const`},
		"bounds":                   {property(`{"exclusiveMinimum":0,"maximum":2}`), `{"v":0}`, `does not match the schema at /properties/v: exclusiveMinimum`},
		"multiple":                 {property(`{"multipleOf":5}`), `{"v":7}`, `does not match the schema at /properties/v: multipleOf`},
		"length":                   {property(`{"minLength":3}`), `{"v":"é€"}`, `does not match the schema at /properties/v: minLength`},
		"pattern":                  {property(`{"pattern":"^a"}`), `{"v":"b"}`, `does not match the schema at /properties/v: pattern`},
		"items":                    {property(`{"items":{"type":"string"}}`), `{"v":["a",1]}`, `does not match the schema at /properties/v/items: type`},
		"max items":                {property(`{"maxItems":1}`), `{"v":[1,2]}`, `does not match the schema at /properties/v: maxItems`},
		"unique":                   {property(`{"uniqueItems":true}`), `{"v":[1,1.0]}`, `does not match the schema at /properties/v: uniqueItems`},
		"tuple":                    {property(`{"prefixItems":[{}],"items":false}`), `{"v":[1,2]}`, `does not match the schema at /properties/v/items: not`},
		"draft 7 tuple":            {document(draft7 + `"properties":{"v":{"items":[{}],"additionalItems":false}}`), `{"v":[1,2]}`, `does not match the schema at /properties/v/additionalItems: not`},
		"draft 7 ref stands alone": {document(draft7 + `"definitions":{"a":{}},"properties":{"v":{"$ref":"#/definitions/a","type":"string"}}`), `{"v":1}`, ``},
		"draft 7 dependencies":     {document(draft7 + `"dependencies":{"v":["w"]}`), `{"v":1}`, `does not match the schema`},
		"ref":                      {document(`"$defs":{"a/b":{"type":"string"}},"properties":{"v":{"$ref":"#/$defs/a~1b"}}`), `{"v":1}`, `does not match the schema at /$defs/a~1b: type`},
		"escaped ref":              {document(`"$defs":{"a b":{"type":"string"}},"properties":{"v":{"$ref":"#/$defs/a%20b"}}`), `{"v":1}`, `does not match the schema at /$defs/a b: type`},
		"ref with an $id":          {document(`"$id":"https://example.com/s","$defs":{"a":{"type":"string"}},"properties":{"v":{"$ref":"#/$defs/a"}}`), `{"v":1}`, `does not match the schema at /$defs/a: type`},
		"ref to a property":        {document(`"properties":{"w":{"type":"string"},"v":{"$ref":"#/properties/w"}}`), `{"v":1}`, `does not match the schema at /properties/w: type`},
		"recursion":                {document(`"properties":{"v":{"$ref":"#"}},"additionalProperties":false`), `{"v":{"v":{"w":1}}}`, `does not match the schema: unexpected additional properties ["w"]`},
		"pattern properties":       {document(`"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false`), `{"x-a":"b","y":1}`, `does not match the schema: unexpected`},
		"property names":           {document(`"propertyNames":{"maxLength":1}`), `{"ab":1}`, `does not match the schema at /propertyNames: maxLength`},
		"number of properties":     {document(`"maxProperties":1`), `{"a":1,"b":2}`, `does not match the schema: maxProperties`},
		"all of":                   {document(`"allOf":[{"required":["a"]},{"required":["b"]}]`), `{"a":1}`, `does not match the schema at /allOf/1: required`},
		"any of":                   {property(`{"anyOf":[{"type":"string"},{"type":"integer"}]}`), `{"v":true}`, `does not match the schema at /properties/v: anyOf: did not validate against any of`},
		"two of one of":            {property(`{"oneOf":[{"type":"number"},{"type":"integer"}]}`), `{"v":1}`, `does not match the schema at /properties/v: oneOf: validated against both`},
		"if":                       {document(`"if":{"required":["a"]},"then":{"required":["b"]}`), `{"a":1}`, `does not match the schema at /then: required: missing properties: ["b"]`},
		"contains":                 {property(`{"contains":{"type":"string"}}`), `{"v":[1]}`, `does not match the schema at /properties/v: contains`},
		"unevaluated":              {document(`"allOf":[{"properties":{"a":{}}}],"unevaluatedProperties":false`), `{"a":1,"b":2}`, `does not match the schema`},
		"format is not asserted":   {property(`{"format":"date-time"}`), `{"v":"x"}`, ``},
		"unknown keyword":          {property(`{"x-order":1}`), `{"v":1}`, ``},
		"a name twice":             {property(`{}`), `{"v":1,"v":2}`, `v: field is given more than once`},
		"no JSON":                  {property(`{}`), `{"v":`, `not valid JSON at byte 5: unexpected end of JSON input`},
		"nothing":                  {property(`{}`), ``, `not valid JSON: the document is empty`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Parse(tt.doc)
			require.NoError(t, err)
			err = s.Validate(json.RawMessage(tt.raw))
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			var invalid *schema.ValidationError
			require.ErrorAs(t, err, &invalid)
			assert.True(t, strings.HasPrefix(err.Error(), tt.want), "got  %s\nwant %s", err, tt.want)
		})
	}
}

func TestDocumentThatIsNotASchemaIsRefused(t *testing.T) {
	for doc, want := range map[string]string{
		``:                                      `schema: not valid JSON: the document is empty`,
		`{`:                                     `schema: not valid JSON at byte 1: unexpected end of JSON input`,
		`{} {}`:                                 `unexpected data after the`,
		`[]`:                                    `schema: got an array, want a JSON object`,
		`true`:                                  `schema: got a boolean, want a JSON object`,
		`{}`:                                    `the root has type "", want "object": arguments are a JSON object`,
		`{"type":"string"}`:                     `the root has type "string", want "object"`,
		`{"type":["object","null"]}`:            `the root has type "object, null", want "object"`,
		`{"type":"a","type":"b"}`:               `type: field is given more than once`,
		`{"type":3}`:                            `invalid value for "type"`,
		`{"type":"object","required":"a"}`:      `cannot unmarshal string`,
		`{"type":"object","maxProperties":1.5}`: `not an integer value`,
		`{"type":"object","properties":{"a":{"type":"strng"}}}`:                             `at /properties/a: got type "strng", want one of ["string" "integer"`,
		`{"type":"object","properties":{"a":null}}`:                                         `at /properties/a: got null, want a schema`,
		`{"type":"object","properties":{"a":3}}`:                                            `cannot unmarshal number`,
		`{"type":"object","$schema":"https://json-schema.org/draft/2019-09/schema"}`:        `$schema is "https://json-schema.org/draft/2019-09/schema", want draft 2020-12 or draft 7`,
		`{"type":"object","$schema":"http://json-schema.org/draft-04/schema#"}`:             `$schema is "http://json-schema.org/draft-04/schema#", want draft 2020-12 or draft 7`,
		`{"type":"object","items":{"$ref":"#/$defs/a"}}`:                                    `at /items: $ref "#/$defs/a" does not exist; want one such as "#/$defs/name"`,
		`{"type":"object","items":{"$ref":"#a"}}`:                                           `at /items: $ref "#a" does not exist`,
		`{"type":"object","items":{"$ref":"#/%zz"}}`:                                        `at /items: $ref "#/%zz" leaves the document`,
		`{"type":"object","$ref":"https://example.com/other.json"}`:                         `at the root: $ref "https://example.com/other.json" leaves the document; want one such as "#/$defs/name"`,
		`{"type":"object","$ref":"file:///etc/passwd"}`:                                     `at the root: $ref "file:///etc/passwd" leaves the document`,
		`{"type":"object","$ref":"other.json#/a"}`:                                          `at the root: $ref "other.json#/a" leaves the document`,
		`{"type":"object","items":{"$id":"https://example.com/a"}}`:                         `at /items: $id is supported at the root only`,
		`{"type":"object","items":{"$anchor":"a"}}`:                                         `at /items: anchors and $dynamicRef are not supported`,
		`{"type":"object","$dynamicRef":"#a"}`:                                              `at the root: anchors and $dynamicRef are not supported`,
		`{"type":"object","properties":{"a":{"pattern":"(?=a)"}}}`:                          `at /properties/a: pattern "(?=a)": error parsing regexp`,
		`{"type":"object","patternProperties":{"(":{}}}`:                                    `at the root: pattern "(": error parsing regexp`,
		`{"type":"object","items":{"multipleOf":0}}`:                                        `at /items: multipleOf is 0, want more than 0`,
		`{"type":"object","items":{"items":{}},"$vocabulary":{"a":true}}`:                   `cannot validate a schema with $vocabulary`,
		`{"type":"object","$defs":{},"definitions":{"a":{}}}`:                               `both Defs and Definitions are set`,
		`{"type":"object","a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`: `values are nested deeper than 256 levels`,
	} {
		t.Run(doc[:min(len(doc), 60)], func(t *testing.T) {
			_, err := schema.Parse([]byte(doc))
			assert.ErrorContains(t, err, want)
		})
	}
}

// The library would follow each of these references until the stack overflows, which ends the
// process.
func TestReferenceThatLeadsBackToItselfIsRefused(t *testing.T) {
	for _, keywords := range []string{
		`"$ref":"#"`,
		`"$REF":"#"`, // the library ignores the case of names
		`"properties":{"v":{"$ref":"#/properties/v"}}`,
		`"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"v":{"$ref":"#/$defs/a"}}`,
		`"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}`,
		`"allOf":[{"$ref":"#"}]`,
		`"if":{"$ref":"#"}`,
		`"oneOf":[{"else":{"then":{"$ref":"#"}}}]`,
		`"dependentSchemas":{"v":{"$ref":"#"}}`,
		`"$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"v":{"$ref":"#"}}`,
		`"$id":"https://example.com/s","allOf":[{"$ref":"#"}]`,
	} {
		_, err := schema.Parse(document(keywords))
		assert.ErrorContains(t, err, "a $ref leads back to itself", keywords)
	}
}

func TestSchemaThatTakesTooMuchWorkIsRefused(t *testing.T) {
	var chain, alternatives strings.Builder
	for i := range 2500 {
		fmt.Fprintf(&chain, `"d%d":{"$ref":"#/$defs/d%d"},`, i, i+1)
	}
	for i := range 60 {
		fmt.Fprintf(&alternatives, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	strict := `{"type":"string"},`
	for name, tt := range map[string]struct {
		doc []byte
		raw string
	}{
		"alternatives within alternatives": { // 2^60 ways
			document(`"$defs":{` + alternatives.String() + `"d60":{"type":"string"}},"properties":{"v":{"$ref":"#/$defs/d0"}}`), `{"v":1}`,
		},
		"alternatives at each level of the arguments": {
			document(`"anyOf":[{"required":["x"],"properties":{"v":{"$ref":"#"}}},{"required":["y"],"properties":{"v":{"$ref":"#"}}}]`),
			strings.Repeat(`{"v":`, 60) + `{}` + strings.Repeat(`}`, 60),
		},
		"a chain of references at each level": {
			document(`"$defs":{` + chain.String() + `"d2500":{"properties":{"v":{"$ref":"#/$defs/d0"}}}},"$ref":"#/$defs/d0"`),
			strings.Repeat(`{"v":`, 200) + `{}` + strings.Repeat(`}`, 200),
		},
		"large arguments shown for each alternative": {
			property(`{"anyOf":[` + strings.Repeat(strict, 5000) + `{"type":"string"}]}`),
			`{"v":["` + strings.Repeat("a", 1<<20) + `"]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Parse(tt.doc)
			require.NoError(t, err)
			assert.ErrorContains(t, s.Validate(json.RawMessage(tt.raw)), "is too expensive to check")
		})
	}
}

func TestLargeArgumentsAreValidated(t *testing.T) {
	s, err := schema.Parse(document(`"properties":{
		"text":{"type":"string"},
		"rows":{"type":"array","items":{"type":"object","required":["id"],"properties":{"id":{"type":"integer"},"name":{"type":["string","null"]}}}}}`))
	require.NoError(t, err)
	rows := strings.Repeat(`{"id":1,"name":"a"},`, 20_000)
	assert.NoError(t, s.Validate(json.RawMessage(`{"text":"`+strings.Repeat("a", 4<<20)+`","rows":[`+rows+`{"id":2}]}`)))
	err = s.Validate(json.RawMessage(`{"rows":[` + rows + `{"id":"2"}]}`))
	assert.EqualError(t, err, `does not match the schema at /properties/rows/items/properties/id: type: 2 has type "string", want "integer"`)
}

func TestMessageDoesNotGrowWithTheArguments(t *testing.T) {
	s, err := schema.Parse(property(`{"type":"string"}`))
	require.NoError(t, err)
	err = s.Validate(json.RawMessage(`{"v":["` + strings.Repeat("é", 100_000) + `"]}`))
	require.Error(t, err)
	assert.Less(t, len(err.Error()), 2100)
	assert.True(t, strings.HasSuffix(err.Error(), "é…"))
}

// The test fails if an upgrade of the library adds a keyword that contains a
// schema and that newGraph does not know.
func TestEveryKeywordWithSchemasIsKnown(t *testing.T) {
	var got []string
	typ := reflect.TypeFor[jsonschema.Schema]()
	for i := range typ.NumField() {
		switch typ.Field(i).Type {
		case reflect.TypeFor[*jsonschema.Schema](), reflect.TypeFor[[]*jsonschema.Schema](), reflect.TypeFor[map[string]*jsonschema.Schema]():
			got = append(got, typ.Field(i).Name)
		}
	}
	assert.ElementsMatch(t, []string{
		"Defs", "Definitions", "ContentSchema",
		"AllOf", "AnyOf", "OneOf", "Not", "If", "Then", "Else", "DependentSchemas", "DependencySchemas",
		"Properties", "PatternProperties", "AdditionalProperties", "PropertyNames", "UnevaluatedProperties",
		"PrefixItems", "Items", "ItemsArray", "AdditionalItems", "Contains", "UnevaluatedItems",
	}, got)
}

// Some generators write the URLs of drafts with an empty fragment, others without.
func TestDraftsAreKnownWithAndWithoutAnEmptyFragment(t *testing.T) {
	for _, url := range []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema"} {
		for _, fragment := range []string{"", "#"} {
			s, err := schema.Parse([]byte(`{"$schema":"` + url + fragment + `","type":"object","properties":{"n":{"type":"integer"}}}`))
			require.NoError(t, err, url+fragment)
			require.NoError(t, s.Validate([]byte(`{"n":1}`)))
			require.Error(t, s.Validate([]byte(`{"n":"x"}`)), url+fragment)
		}
	}
}
