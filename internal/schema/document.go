package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// A Document is a JSON schema that was written by hand or received from a
// server. Create one with [Parse].
//
// A Document is immutable and safe for concurrent use.
type Document struct {
	doc      json.RawMessage
	graph    *graph
	resolved *jsonschema.Resolved
}

// drafts maps the supported values of $schema to the values that the library knows.
var drafts = map[string]string{
	"": "",
	"https://json-schema.org/draft/2020-12/schema":  draft202012,
	"https://json-schema.org/draft/2020-12/schema#": draft202012, // the form that some generators write
	"http://json-schema.org/draft-07/schema#":       draft7,
	"https://json-schema.org/draft-07/schema#":      draft7,
	"http://json-schema.org/draft-07/schema":        draft7,
	"https://json-schema.org/draft-07/schema":       draft7,
}

const (
	draft202012 = "https://json-schema.org/draft/2020-12/schema"
	draft7      = "http://json-schema.org/draft-07/schema#"
)

// Parse parses a schema of draft 2020-12, or of draft 7 if its $schema names that draft. The type
// of the schema must be "object", since arguments are a JSON object. Unknown keywords and the
// keyword format are ignored.
//
// If the schema uses an unsupported feature, the error says where in the document. The unsupported
// features are references that leave the document or lead back to themselves, anchors, an $id below
// the root, and patterns that package regexp does not support.
func Parse(doc []byte) (*Document, error) {
	d, err := parse(doc)
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return d, nil
}

func parse(doc []byte) (d *Document, err error) {
	tree, twice, err := read(doc)
	switch {
	case err != nil:
		return nil, err
	case len(twice) > 0:
		return nil, errors.New(twice[0].String())
	}
	if _, ok := tree.(*object); !ok {
		return nil, fmt.Errorf("got %s, want a JSON object", withArticle(typeOf(tree)))
	}
	defer func() {
		if p := recover(); p != nil { // a panic in the library
			err = fmt.Errorf("reading the schema panicked: %v", p)
		}
	}()
	root := &jsonschema.Schema{}
	if err := json.Unmarshal(doc, root); err != nil {
		return nil, err
	}
	draft, known := drafts[root.Schema]
	if !known {
		return nil, fmt.Errorf("$schema is %q, want draft 2020-12 or draft 7", root.Schema)
	}
	root.Schema = draft
	if root.Type != "object" {
		return nil, fmt.Errorf(`the root has type %q, want "object": arguments are a JSON object`, strings.Join(typesOf(root), ", "))
	}
	g, err := newGraph(root)
	if err != nil {
		return nil, err
	}
	resolved, err := root.Resolve(nil) // nil options: load nothing from elsewhere
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, doc); err != nil {
		return nil, err
	}
	return &Document{compact.Bytes(), g, resolved}, nil
}

// JSON returns the original schema without insignificant space. The caller
// owns the bytes.
func (d *Document) JSON() json.RawMessage { return bytes.Clone(d.doc) }

// Validate returns nil if raw is a single JSON document that the schema allows, and otherwise a
// *[ValidationError] with the first problem. It also rejects whatever [Schema.Validate] always
// rejects, and a document that would take too much work to check.
func (d *Document) Validate(raw json.RawMessage) error {
	tree, problems, err := read(raw)
	if err == nil && len(problems) == 0 {
		err = d.validate(newValue(tree))
	}
	if err != nil {
		problems = []Problem{{Message: err.Error()}}
	}
	if len(problems) > 0 {
		return &ValidationError{Problems: problems}
	}
	return nil
}

func (d *Document) validate(v *value) (err error) {
	if err := d.graph.checkWork(v); err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil { // a panic in the library
			err = fmt.Errorf("applying the schema panicked: %v", p)
		}
	}()
	if err := d.resolved.Validate(v.json); err != nil {
		return errors.New(libraryMessage(err))
	}
	return nil
}

var validating = regexp.MustCompile(`^validating (.+?): `)

// libraryMessage shortens a message of the library: of the path to the schema that does not match,
// it keeps only the last step.
func libraryMessage(err error) string {
	const most = 2000 // needed because the library prints whole values
	text, at := err.Error(), "root"
	for {
		match := validating.FindStringSubmatch(text)
		if match == nil {
			break
		}
		text, at = text[len(match[0]):], match[1]
	}
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	if at == "root" {
		return "does not match the schema: " + text
	}
	return fmt.Sprintf("does not match the schema at %s: %s", at, text)
}
