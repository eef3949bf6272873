package actors

import (
	"encoding/json"
	"fmt"

	"github.com/reprise-go/reprise/internal/schema"
)

// WithStrict makes services enforce the schema of a tool, or of a typed agent's answer, so that the
// model cannot produce anything else. The schema is sent in the form that services require for
// this: every property is required, and an optional property may be null. A null for an optional
// property is removed before the arguments are checked and decoded.
//
// Without the option, the schema of a typed agent's answer is enforced if the answer's type allows
// this. With the option, the constructor panics if the type does not allow it, and states the
// reason: services cannot enforce objects whose keys are not known, such as maps, or values of any
// type.
func WithStrict() Option {
	return func(o *options) { o.strict = true }
}

// strictSchema is a schema in the form that services can enforce.
type strictSchema struct{ *schema.Strict }

func strictOf(s Schema) (strictSchema, error) {
	strict, err := schema.NewStrict(s)
	if err != nil {
		return strictSchema{}, err
	}
	return strictSchema{strict}, nil
}

// mustStrict returns the strict form of s. It panics if services cannot enforce the schema.
func mustStrict(name string, s Schema) Schema {
	strict, err := strictOf(s)
	if err != nil {
		panic(fmt.Sprintf("actors: %q: WithStrict: %v", name, err))
	}
	return strict
}

// fromStrict converts a document that fits the strict schema to the form in which it is decoded.
func fromStrict(s Schema, document json.RawMessage) json.RawMessage {
	if strict, ok := s.(strictSchema); ok {
		return strict.Plain(document)
	}
	return document
}
