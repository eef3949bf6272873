package actors

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func FuzzDocumentIn(f *testing.F) {
	for _, text := range []string{`{}`, "```json\n{\"a\":1}\n```", `<think>{}</think>{"a":{}}`, `{{{}}`, `{"a":"}{`, "\xff{\"a\":1}", ``} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		check := func(document string) error {
			var object map[string]any
			if err := json.Unmarshal([]byte(document), &object); err != nil || object == nil {
				return errors.New("not an object")
			}
			return nil
		}
		document, problem := documentIn(text, check)
		if (problem == nil) != (document != "") {
			t.Fatalf("%q: %q, %v", text, document, problem)
		}
		if problem == nil && check(document) != nil {
			t.Fatalf("%q: found %q, which does not fit", text, document)
		}
	})
}

// The document is found even after any number of formulas, or of functions in a program.
func TestDocumentIsFoundAfterOtherBraces(t *testing.T) {
	const want = `{"a": 1}`
	check := func(s string) error {
		if s != want {
			return errors.New("not it")
		}
		return nil
	}
	for _, before := range []string{`\frac{1}{2} `, "func f() {\n\treturn\n}\n", `{ x | x > 0 } `, `{a: 1} `} {
		got, err := documentIn(strings.Repeat(before, 100)+"\n```json\n"+want+"\n```", check)
		require.NoError(t, err, before)
		assert.Equal(t, want, got)
	}
}
