package live

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record/redact"
)

// A tool that reports its progress never emits PartEnd. A redaction lives as long as its process.
func TestRedactionRemembersOnlyCallsThatProduceTexts(t *testing.T) {
	d := &deltaRedaction{redaction: redact.Func(strings.Clone), next: func(Delta) {}, calls: make(map[callKey]*redactedCall)}
	d.show(Delta{RunID: "tool", Part: PartProgress, Text: "page 1 of 2"})
	d.show(Delta{RunID: "model", Part: PartBegin})
	assert.Empty(t, d.calls)
	d.show(Delta{RunID: "model", Part: PartText, Text: "It"})
	d.show(Delta{RunID: "model", Part: PartProgress, Text: "still"})
	assert.Len(t, d.calls, 1)
	d.show(Delta{RunID: "model", Part: PartEnd})
	assert.Empty(t, d.calls)
}

// An abandoned attempt never emits PartEnd, so the number of remembered calls is limited. A call
// that keeps emitting text is not forgotten.
func TestRedactionForgetsTheCallsThatHaveBeenSilentLongest(t *testing.T) {
	d := &deltaRedaction{redaction: redact.Func(strings.Clone), next: func(Delta) {}, calls: make(map[callKey]*redactedCall)}
	d.show(Delta{RunID: "first", Part: PartText, Text: "It"})
	for i := range 2 * maxCalls {
		d.show(Delta{RunID: fmt.Sprint(i), Part: PartText, Text: "It"})
		d.show(Delta{RunID: "first", Part: PartText, Text: "is"})
	}
	assert.Len(t, d.calls, maxCalls)
	assert.Contains(t, d.calls, callKey{runID: "first"})
}
