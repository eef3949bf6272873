package schema_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/reprise-go/reprise/internal/schema"
)

// FuzzValidate uses For, not ForArguments, whose schemas ask encoding/json
// themselves: the schema alone must say all that encoding/json would.
func FuzzValidate(f *testing.F) {
	s, err := schema.For(reflect.TypeFor[order]())
	if err != nil {
		f.Fatal(err)
	}
	arguments, err := schema.ForArguments(reflect.TypeFor[order]())
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
		got, gotArguments := s.Validate(raw), arguments.Validate(raw)
		if (got == nil) != (gotArguments == nil) {
			t.Fatalf("For: %v\nForArguments: %v\n%q", got, gotArguments, raw)
		}
		if got != nil {
			return
		}
		dec := json.NewDecoder(bytes.NewReader(raw))
		dec.DisallowUnknownFields()
		if err := dec.Decode(new(order)); err != nil {
			t.Fatalf("valid, but does not decode: %v\n%q", err, raw)
		}
	})
}
