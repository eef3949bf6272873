package engine

import (
	"testing"

	"github.com/reprise-go/reprise/record"
)

// FuzzInDoubtAnswer reads answers about calls in doubt from arbitrary bytes.
func FuzzInDoubtAnswer(f *testing.F) {
	for _, v := range []any{
		map[string]any{"decision": "run_again", "output": nil, "message": ""},
		map[string]any{"decision": "failed", "message": "why"},
		map[string]any{"decision": "completed", "output": map[string]any{"id": 7}},
		map[string]any{"decision": "completed", "output": nil},
		map[string]any{"decision": "completed"},
		map[string]any{"decision": 7, "more": []any{1}},
		"run_again", nil,
		[]any{1},
	} {
		encoded, err := record.Encode(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		answer, err := readInDoubtAnswer(encoded)
		if err != nil {
			return
		}
		switch answer.decision {
		case decidedRunAgain, decidedFailed:
		case decidedCompleted:
			var v any
			if err := record.Decode(answer.output, &v); answer.output == nil || err != nil && record.Preview(answer.output) == "(unreadable)" {
				t.Errorf("the output %x is not a value: %v", answer.output, err)
			}
		default:
			t.Errorf("the invalid decision %q was accepted", answer.decision)
		}
	})
}
