package actors

import (
	"encoding/json"
	"errors"
	"testing"
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
