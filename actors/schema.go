package actors

import (
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/internal/schema"
)

// A Schema describes the arguments of a function and checks them. Package decorators infers a
// schema from a Go type; [ParseSchema] makes one from a document.
type Schema interface {
	// JSON returns the JSON schema that is sent to a model.
	JSON() json.RawMessage

	// Validate returns nil if the arguments are valid; otherwise, it returns an error that
	// describes what is wrong with them.
	Validate(arguments json.RawMessage) error
}

// ParseSchema returns a schema for a JSON document, such as one written by hand or one that a
// server sent for its tool. The document is sent to models unchanged, and the arguments that the
// models return must match it:
//
//	parameters, err := actors.ParseSchema(document)
//	…
//	tool := actors.NewTool("search", "Searches the archive.", parameters,
//		func(ctx context.Context, arguments json.RawMessage) (string, error) { … })
//
// The arguments are decoded into the input of the tool by encoding/json: [encoding/json.RawMessage]
// and map[string]any keep all of them; a struct keeps only those for which it has fields.
//
// Drafts 2020-12 and 7 are supported; format is not checked. The root must have the type "object".
// ParseSchema returns an error if the document is not a JSON schema, if it contains anchors or
// $dynamicRef, or if a $ref points outside the document or leads back to itself.
func ParseSchema(document []byte) (Schema, error) {
	s, err := schema.Parse(document)
	if err != nil {
		return nil, fmt.Errorf("actors: %w", err)
	}
	return s, nil
}
