package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/schema"
)

func TestParsedDocumentKeepsItsOrder(t *testing.T) {
	s, err := schema.Parse(json.RawMessage(`{ "required": ["b"], "type": "object", "properties": {"b": {}, "a": {"x-mine": 1}} }`))
	require.NoError(t, err)
	assert.Equal(t, `{"required":["b"],"type":"object","properties":{"b":{},"a":{"x-mine":1}}}`, string(s.JSON()))
}

func TestParsedSchemaFindsProblems(t *testing.T) {
	for name, tt := range map[string]struct{ doc, raw, want string }{
		"true":                   {`true`, `1`, ``},
		"false":                  {`false`, `1`, `nothing is allowed here`},
		"integer with fraction":  {`{"type":"integer"}`, `1.0`, ``},
		"large enum":             {`{"enum":[9007199254740993]}`, `9007199254740993`, ``},
		"large enum, next":       {`{"enum":[9007199254740993]}`, `9007199254740992`, `9007199254740992 is not allowed; want one of 9007199254740993`},
		"enum of equal worth":    {`{"enum":[1,{"a":[1,2],"b":2}]}`, `{"b":2.0,"a":[10e-1,2]}`, ``},
		"const":                  {`{"const":"a"}`, `"b"`, `"b" is not allowed; want "a"`},
		"const null":             {`{"const":null}`, `1`, `1 is not allowed; want null`},
		"large const below":      {`{"properties":{"a/b~":{"const":9007199254740993}}}`, `{"a/b~":9007199254740993}`, ``},
		"exclusive bounds":       {`{"items":{"exclusiveMinimum":0,"exclusiveMaximum":2.5}}`, `[0,1,2.5]`, "[0]: 0 is too small; want more than 0\n[2]: 2.5 is too large; want less than 2.5"},
		"bounds of large":        {`{"minimum":0}`, `-1e-999`, `-1e-999 is too small; want at least 0`},
		"multiple":               {`{"multipleOf":5}`, `7`, `7 is not allowed; want a multiple of 5`},
		"length":                 {`{"items":{"minLength":1,"maxLength":2}}`, `["","é€","abc"]`, "[0]: \"\" is too short; want at least 1 character, got 0\n[2]: \"abc\" is too long; want at most 2 characters, got 3"},
		"items":                  {`{"minItems":2}`, `[1]`, `want at least 2 items, got 1`},
		"max items":              {`{"maxItems":0}`, `[1]`, `want at most 0 items, got 1`},
		"unique":                 {`{"uniqueItems":true}`, `[1,{"a":1},1.0]`, `[2]: is the same as item 0; want no item twice`},
		"tuple":                  {`{"prefixItems":[{"type":"string"}],"items":false}`, `[1,2]`, "[0]: want string, got integer\n[1]: nothing is allowed here"},
		"draft 7 tuple":          {`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":{"type":"null"}}`, `[1,2]`, "[0]: want string, got integer\n[1]: want null, got integer"},
		"draft 7 ref is alone":   {`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"a":{}},"items":{"$ref":"#/definitions/a","type":"string"}}`, `[1]`, ``},
		"ref":                    {`{"$id":"https://example.com/s","$defs":{"a/b":{"type":"string"}},"items":{"$ref":"https://example.com/s#/$defs/a~1b"}}`, `[1]`, `[0]: want string, got integer`},
		"anchor":                 {`{"$defs":{"a":{"$anchor":"here","type":"string"}},"items":{"$ref":"#here"}}`, `[1]`, `[0]: want string, got integer`},
		"escaped ref":            {`{"$defs":{"a b":{"type":"string"}},"items":{"$ref":"#/$defs/a%20b","maxLength":1}}`, `["ab"]`, `[0]: "ab" is too long; want at most 1 character, got 2`},
		"pattern properties":     {`{"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false}`, `{"x-a":1,"y":1}`, "x-a: want string, got integer\ny: unknown field; its name matches no pattern of the schema"},
		"property names":         {`{"propertyNames":{"maxLength":1}}`, `{"ab":1}`, `ab: name of the field: "ab" is too long; want at most 1 character, got 2`},
		"number of properties":   {`{"minProperties":2}`, `{"a":1}`, `want at least 2 fields, got 1`},
		"max properties":         {`{"maxProperties":1}`, `{"a":1,"b":2}`, `want at most 1 field, got 2`},
		"additional":             {`{"additionalProperties":{"type":"string"}}`, `{"a":1}`, `a: want string, got integer`},
		"no type":                {`{"properties":{"a":{"type":"string"}}}`, `3`, ``},
		"all of":                 {`{"allOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, "a: required field is missing\nb: required field is missing"},
		"any of types":           {`{"anyOf":[{"type":"string"},{"type":"integer"}]}`, `true`, `want string or integer, got boolean`},
		"any of, one is near":    {`{"anyOf":[{"type":"string"},{"type":"object","required":["a"]}]}`, `{}`, `a: required field is missing`},
		"any of, two are near":   {`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{}`, `is none of the allowed forms: a: required field is missing; or b: required field is missing`},
		"one of":                 {`{"oneOf":[{"type":"string"},{"type":"null"}]}`, `1`, `want string or null, got integer`},
		"two of one of":          {`{"oneOf":[{"type":"number"},{"type":"integer"}]}`, `1`, `does not match the schema: oneOf: validated against both`},
		"not":                    {`{"properties":{"a":{"not":{"type":"string"}}}}`, `{"a":"x"}`, `does not match the schema at /properties/a: not: validated against`},
		"if":                     {`{"if":{"required":["a"]},"then":{"required":["b"]}}`, `{"a":1}`, `does not match the schema at /then: required: missing properties: ["b"]`},
		"contains":               {`{"contains":{"type":"string"}}`, `[1]`, `does not match the schema: contains:`},
		"format is not asserted": {`{"format":"date-time"}`, `"x"`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := schema.Parse(json.RawMessage(tt.doc))
			require.NoError(t, err)
			err = s.Validate(json.RawMessage(tt.raw))
			if tt.want == "" {
				assert.NoError(t, err)
				return
			}
			require.Error(t, err)
			assert.True(t, strings.HasPrefix(err.Error(), tt.want), "got  %s\nwant %s", err, tt.want)
		})
	}
}

func TestDocumentThatIsNoSchemaIsRefused(t *testing.T) {
	for doc, want := range map[string]string{
		``:                                      `not valid JSON: the document is empty`,
		`{`:                                     `not valid JSON: unexpected end of JSON input`,
		`{} {}`:                                 `there is more after the end`,
		`[]`:                                    `want a JSON object, got array`,
		`{"type":"a","type":"b"}`:               `type: field is given more than once`,
		`{"type":3}`:                            `invalid value for "type"`,
		`{"properties":{"a":{"type":"strng"}}}`: `at /properties/a: type "strng" is unknown; want one of "string", "integer"`,
		`{"properties":{"a":null}}`:             `at /properties/a: want a schema, got null`,
		`{"properties":{"a":3}}`:                `cannot unmarshal number`,
		`{"$schema":"https://example.com"}`:     `$schema "https://example.com" is not supported; want draft 2020-12 or draft 7`,
		`{"items":{"$ref":"#/$defs/a"}}`:        `at /items: $ref "#/$defs/a" leads nowhere`,
		`{"$ref":"https://example.com/other.json"}`: `at the root: $ref "https://example.com/other.json" leads nowhere; only references within`,
		`{"items":{"$id":"https://example.com/a"}}`: `at /items: $id is supported at the root only`,
		`{"$dynamicRef":"#a"}`:                      `at the root: $dynamicRef and $dynamicAnchor are not supported`,
		`{"pattern":"(?=a)"}`:                       `at the root: pattern "(?=a)": error parsing regexp`,
		`{"patternProperties":{"(":{}}}`:            `at the root: pattern "(": error parsing regexp`,
		`{"multipleOf":0}`:                          `at the root: multipleOf 0 is not more than 0`,
		`{"$ref":"#"}`:                              `a $ref leads back to itself`,
		`{"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"not":{"$ref":"#/$defs/a"}}}}`: `a $ref leads back to itself`,
	} {
		_, err := schema.Parse(json.RawMessage(doc))
		assert.ErrorContains(t, err, want, doc)
	}
}

func TestAlternativesWithinAlternativesAreTriedOnce(t *testing.T) {
	// Each level tries both forms on the level below: 2^60 ways, if not kept.
	s, err := schema.Parse(json.RawMessage(`{"$defs":{"e":{"anyOf":[
		{"type":"object","required":["x"],"properties":{"e":{"$ref":"#/$defs/e"}}},
		{"type":"object","required":["y"],"properties":{"e":{"$ref":"#/$defs/e"}}}]}},"$ref":"#/$defs/e"}`))
	require.NoError(t, err)
	err = s.Validate(json.RawMessage(strings.Repeat(`{"e":`, 60) + `{}` + strings.Repeat(`}`, 60)))
	assert.ErrorContains(t, err, "is none of the allowed forms")
}
