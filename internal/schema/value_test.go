package schema

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type answer struct {
	Yes   bool            `json:"yes"`
	Kind  string          `json:"kind" enum:"x,y"`
	Count *int            `json:"count"`
	At    time.Time       `json:"at"`
	Bytes []byte          `json:"bytes,omitempty"`
	More  []answer        `json:"more,omitempty"`
	By    map[string]int8 `json:"by"`
	Next  *answer         `json:"next,omitempty"`
}

var answerTypes = []reflect.Type{
	reflect.TypeFor[bool](), reflect.TypeFor[*bool](), reflect.TypeFor[string](), reflect.TypeFor[[]string](), reflect.TypeFor[any](),
	reflect.TypeFor[answer](), reflect.TypeFor[*answer](), reflect.TypeFor[[]answer](), reflect.TypeFor[int64](), reflect.TypeFor[uint64](), reflect.TypeFor[time.Time](), reflect.TypeFor[map[string]answer](),
}

var answerDocuments = []string{
	"true", "null", `"a"`, `["a", 1]`, "{}", "1", "1.5", "-1", "18446744073709551615", "99999999999999999999", "1e999", `"2026-11-22T08:30:00Z"`,
	`{"yes": true, "kind": "x", "at": "2026-11-22T08:30:00Z", "by": {}}`,
	`{"yes": true, "kind": "z", "at": "soon", "by": {"a": 300}, "more": [{}], "count": 1.5, "bytes": "?", "unknown": 1, "next": {"yes": 1}}`,
}

// TestARestoredSchemaFindsTheSameFields checks that a restored schema rejects the same fields as
// the original.
func TestARestoredSchemaFindsTheSameFields(t *testing.T) {
	for _, typ := range answerTypes {
		s, err := ForValue(typ)
		require.NoError(t, err)
		restored, err := Restore(s.JSON())
		require.NoError(t, err, typ)
		for _, doc := range answerDocuments {
			assert.Equal(t, paths(s.Validate([]byte(doc))), paths(restored.Validate([]byte(doc))), "%s: %s", typ, doc)
		}
	}
	_, err := ForValue(reflect.TypeFor[chan int]())
	require.Error(t, err)
}

func paths(err error) (all []string) {
	if wrong, ok := err.(*ValidationError); ok { //nolint:errorlint // the error type that Validate returns
		for _, p := range wrong.Problems {
			all = append(all, p.Path)
		}
	}
	return all
}

func TestADocumentThatIsNotFromThisPackageIsNotRestored(t *testing.T) {
	for _, doc := range []string{
		"", "1", "[]", `{"$ref": "#"}`, `{"$ref": "#/$defs/a"}`, `{"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}`,
		`{"anyOf": [{"$ref": "#"}]}`, `{"anyOf": [{"type": "string"}, {"type": "null"}]}`, `{"anyOf": [{"$ref": "#"}, {"type": "null"}]}`,
		`{"properties": {"a": null}}`, `{"anyOf": []}`, `{"items": {"$ref": "other"}}`,
		`{"type": [""]}`, `{"type": "text"}`, `{"properties": {"a": {"type": ["string", "nil"]}}}`,
	} {
		_, err := Restore(json.RawMessage(doc))
		assert.Error(t, err, doc)
	}
}

func FuzzRestore(f *testing.F) {
	for _, typ := range answerTypes {
		s, err := ForValue(typ)
		require.NoError(f, err)
		for _, doc := range answerDocuments {
			f.Add([]byte(s.JSON()), []byte(doc))
		}
	}
	f.Fuzz(func(_ *testing.T, schema, doc []byte) {
		if s, err := Restore(schema); err == nil {
			_ = s.Validate(doc)
		}
	})
}
