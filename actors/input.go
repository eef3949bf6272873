package actors

import (
	"encoding/json"

	"github.com/reprise-go/reprise/internal/misfit"
)

// DecodeInput decodes an input of the agent from JSON. If the agent's schema does
// not allow the input, the error is an *[ArgumentsError] that names the field. An
// agent without a schema accepts whatever encoding/json accepts.
func (a Agent[In, Out]) DecodeInput(input json.RawMessage) (In, error) {
	return decodeInput[In](a.Name(), a.schema, input)
}

// DecodeInput decodes an input of the tool from JSON. If the tool's schema does
// not allow the input, the error is an *[ArgumentsError] that names the field.
func (t Tool[In, Out]) DecodeInput(input json.RawMessage) (In, error) {
	return decodeInput[In](t.Name(), t.schema, input)
}

// Description returns the description of the agent, which may be empty.
func (a Agent[In, Out]) Description() string { return a.definition.Spec().Description }

// Description returns the description of the tool, which may be empty.
func (t Tool[In, Out]) Description() string { return t.definition.Spec().Description }

// InputSchema returns the JSON schema against which DecodeInput checks an input, or
// nil if the agent has none.
func (a Agent[In, Out]) InputSchema() json.RawMessage {
	return describe(a.definition, a.schema).Parameters
}

// InputSchema returns the JSON schema against which DecodeInput checks an input, or nil if the tool
// has none.
func (t Tool[In, Out]) InputSchema() json.RawMessage {
	return describe(t.definition, t.schema).Parameters
}

func decodeInput[In any](name string, schema Schema, input json.RawMessage) (In, error) {
	var in, zero In
	if err := decodeInto(&in, name, schema, input); err != nil {
		return zero, err
	}
	return in, nil
}

// decodeInto decodes an input into the pointer in. If there is an error, *in is undefined.
func decodeInto(in any, name string, schema Schema, input json.RawMessage) error {
	if schema != nil {
		if err := schema.Validate(input); err != nil {
			return &ArgumentsError{name, err}
		}
	}
	if err := json.Unmarshal(fromStrict(schema, input), in); err != nil {
		return &ArgumentsError{name, misfit.Explain(err)}
	}
	return nil
}
