package schema

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestADecisionFitsItsSchema checks decisions with a validator that knows only the document.
func TestADecisionFitsItsSchema(t *testing.T) {
	node, err := ForValue(reflect.TypeFor[answer]())
	require.NoError(t, err)
	text, err := ForValue(reflect.TypeFor[string]())
	require.NoError(t, err)
	const fits = `{"yes": true, "kind": "x", "count": 1, "at": "2026-11-22T08:30:00Z", "by": {}, "more": [{"yes": false, "kind": "y", "count": null, "at": "2026-11-22T08:30:00Z", "by": {}}]}`
	const unfit = `{"yes": true, "kind": "x", "count": 1, "at": "2026-11-22T08:30:00Z", "by": {}, "more": [{"yes": 1}]}`
	for _, test := range []struct {
		name     string
		output   json.RawMessage
		takeOver bool
		decision string
		want     bool
	}{
		{"completed", text.JSON(), false, `{"decision": "completed", "output": "paid"}`, true},
		{"another type", text.JSON(), false, `{"decision": "completed", "output": 1}`, false},
		{"recursive", node.JSON(), false, `{"decision": "completed", "output": ` + fits + `}`, true},
		{"recursive, wrong inside", node.JSON(), false, `{"decision": "completed", "output": ` + unfit + `}`, false},
		{"unknown output", nil, false, `{"decision": "completed", "output": [1]}`, true},
		{"failed", text.JSON(), false, `{"decision": "failed", "message": "no"}`, true},
		{"no effect", text.JSON(), false, `{"decision": "take_over"}`, false},
		{"effect", text.JSON(), true, `{"decision": "take_over"}`, true},
		{"no decision", text.JSON(), false, `{"output": "paid"}`, false},
		{"unknown field", text.JSON(), false, `{"decision": "failed", "why": "no"}`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			document := new(jsonschema.Schema)
			require.NoError(t, json.Unmarshal(ForDecision(test.output, test.takeOver), document))
			resolved, err := document.Resolve(&jsonschema.ResolveOptions{BaseURI: "http://localhost/decision"})
			require.NoError(t, err)
			var decision any
			require.NoError(t, json.Unmarshal([]byte(test.decision), &decision))
			err = resolved.Validate(decision)
			assert.Equal(t, test.want, err == nil, "%v", err)
		})
	}
}

func TestTheOutputOfADecisionIsChecked(t *testing.T) {
	node, err := ForValue(reflect.TypeFor[answer]())
	require.NoError(t, err)
	restored, err := Restore(OutputOfDecision(ForDecision(node.JSON(), false)))
	require.NoError(t, err)
	for _, document := range answerDocuments {
		assert.Equal(t, paths(node.Validate([]byte(document))), paths(restored.Validate([]byte(document))), document)
	}
	assert.Nil(t, OutputOfDecision(ForDecision(nil, true)))
	assert.Nil(t, OutputOfDecision(nil))
}
