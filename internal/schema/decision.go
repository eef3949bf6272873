package schema

import (
	"bytes"
	"encoding/json"
)

// ForDecision returns the schema of a decision about a call in doubt. Output is the schema of the
// call's output, or empty if that schema is not known. If takeOver is true, the decision can also
// be that the call takes over the effect of another call.
func ForDecision(output json.RawMessage, takeOver bool) json.RawMessage {
	decisions := []string{"completed", "run_again", "failed"}
	if takeOver {
		decisions = append(decisions, "take_over")
	}
	type property map[string]any
	document, err := json.Marshal(struct {
		Type       string         `json:"type"`
		Properties map[string]any `json:"properties"`
		Required   []string       `json:"required"`
		Additional bool           `json:"additionalProperties"`
	}{"object", map[string]any{
		"decision": property{"type": "string", "enum": decisions, "description": "whether the call took effect, and what happens to it"},
		"output":   ownResource(output),
		"message":  property{"type": "string", "description": "why the call failed, if the decision is failed"},
	}, []string{"decision"}, false})
	if err != nil {
		return nil // output is not JSON
	}
	return document
}

// ownResource gives a schema an ID of its own, so that its references are resolved inside it and
// not inside the schema that contains it:
// https://json-schema.org/draft/2020-12/json-schema-core#section-8.2.1
func ownResource(document json.RawMessage) json.RawMessage {
	document = bytes.TrimSpace(document)
	switch {
	case len(document) == 0:
		return json.RawMessage("{}")
	case bytes.Contains(document, []byte(`"$ref"`)) && document[0] == '{':
		return append([]byte(`{"$id":"output",`), document[1:]...)
	}
	return document
}

// OutputOfDecision returns the schema of the call's output in a schema from [ForDecision]. It
// returns nil if the output may be anything.
func OutputOfDecision(document json.RawMessage) json.RawMessage {
	var decision struct {
		Properties struct {
			Output json.RawMessage `json:"output"`
		} `json:"properties"`
	}
	if json.Unmarshal(document, &decision) != nil || string(decision.Properties.Output) == "{}" {
		return nil
	}
	return decision.Properties.Output
}
