package schema_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/reprise-go/reprise/internal/schema"
)

// FuzzValidate checks that encoding/json decodes every document that the schema accepts.
func FuzzValidate(f *testing.F) {
	s, err := schema.ForArguments(reflect.TypeFor[order]())
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		`{"name":"a","count":1,"small":-128,"big":18446744073709551615,"price":1.5e3,"quoted":"-1","text":"\"a\""}`,
		`{"name":"a","unit":"celsius","level":"low","grade":9007199254740993,"address":{"city":"x"},"items":[{"name":"a","unit":"celsius"}]}`,
		`{"name":"a","pair":[true,false],"when":"2006-01-02T15:04:05Z","wait":1,"data":"YQ==","prices":{"per day":1e308},"seats":{"-1":"a"}}`,
		`{"name":"a","hosts":{"::1":true},"host":"10.0.0.1","extra":[{"a":1e-999}],"raw":1e999,"number":-0.0e-1,"none":{}}`,
		`{"name":"a","tree":{"name":"a","next":{"name":"b","children":[{"name":"c"}],"by_name":{"d":{"name":"d"}}}}}`,
		`{"name":"a","name":"b"}`, `{"name":"a"} {}`, `null`, `[`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if s.Validate(raw) != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(new(order)); err != nil {
			t.Fatalf("valid, but does not decode: %v\n%q", err, raw)
		}
	})
}

// FuzzParse checks that any document is either refused as a schema or can be applied.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"type":"object","properties":{"v":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"type":"string"},{"items":{"$ref":"#/$defs/a"}}]}}}`,
		`{"type":"object","$schema":"http://json-schema.org/draft-07/schema#","dependencies":{"v":{"required":["w"]}},"items":[true,false]}`,
		`{"type":"object","propertyNames":{"pattern":"^a"},"unevaluatedProperties":{"enum":[1,null,{"a":[]}]},"if":{},"then":{"const":null}}`,
		`{"type":"object","properties":{"v":{"contains":{"multipleOf":0.1},"uniqueItems":true,"minItems":1}},"dependentRequired":{"v":["w"]}}`,
		`{"type":"object","$id":"https://example.com/s","$REF":"#"}`,
	} {
		f.Add([]byte(seed), []byte(`{"v":[1,[2,"a"],{"v":null}],"w":1e999}`))
	}
	f.Fuzz(func(t *testing.T, doc, raw []byte) {
		s, err := schema.Parse(doc)
		if err != nil {
			return
		}
		if !json.Valid(s.JSON()) {
			t.Fatalf("not JSON: %q", s.JSON())
		}
		if s.Validate(raw) == nil && !json.Valid(raw) {
			t.Fatalf("valid, but not JSON: %q", raw)
		}
	})
}
