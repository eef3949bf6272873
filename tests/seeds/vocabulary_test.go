package seeds

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/vocabulary"
)

// said is what a run of one step said, and the events.
func said(t *testing.T, v vocabulary.Vocabulary, attempts int, errs ...error) (lines []string, events []vocabulary.Event) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		hear := v.Subscriber(func(e vocabulary.Event) {
			events = append(events, e)
			lines = append(lines, e.Name)
		})
		st := state.New(state.WithRunID("run"), state.WithPublisher(testkit.Publisher(hear)))
		cfg := core.RetryConfig{MaxAttempts: attempts, Jitter: core.NoJitter}
		handlers := make([]testkit.Handler, 0, len(errs)+1)
		for _, err := range errs {
			handlers = append(handlers, testkit.Fail(err))
		}
		_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "step", cfg, testkit.Attempts(append(handlers, testkit.Succeed)...)))
		require.NoError(t, st.Close())
	})
	return lines, events
}

// "Event Timeline Example", both of them.
func TestNoETLTimeline(t *testing.T) {
	got, events := said(t, vocabulary.NoETL, 3, errUnavailable, errUnavailable)
	assert.Equal(t, strings.Fields(`
		action_started action_error step_retry
		action_started action_error step_retry
		action_started action_completed step_completed`), got)
	for i, want := range map[int]string{
		0: `{"event_type": "action_started", "execution_id": "run", "node_id": "step", "node_name": "step", "node_type": "tool_call", "status": "STARTED",
			"context": {"retry": {"attempt": 1, "max_attempts": 3, "is_retry": false}}}`,
		1: `{"event_type": "action_error", "execution_id": "run", "node_id": "step", "node_name": "step", "node_type": "tool_call", "status": "FAILED",
			"context": {"attempt": 1, "error": ` + quoted(errUnavailable) + `}}`,
		5: `{"event_type": "step_retry", "execution_id": "run", "node_id": "step", "node_name": "step", "node_type": "tool_call", "status": "PENDING",
			"context": {"attempt": 3, "max_attempts": 3, "delay_seconds": 2, "last_error": ` + quoted(errUnavailable) + `}}`,
		6: `{"event_type": "action_started", "execution_id": "run", "node_id": "step", "node_name": "step", "node_type": "tool_call", "status": "STARTED",
			"context": {"retry": {"attempt": 3, "max_attempts": 3, "is_retry": true}}}`,
	} {
		data, err := json.Marshal(events[i])
		require.NoError(t, err)
		assert.JSONEq(t, want, string(data))
	}

	got, events = said(t, vocabulary.NoETL, 3, times(3, errUnavailable)...)
	assert.Equal(t, strings.Fields(`
		action_started action_error step_retry
		action_started action_error step_retry
		action_started action_error step_retry_exhausted step_failed_terminal execution_failed`), got)
	exhausted := events[8].Fields["context"].(map[string]any)
	assert.Equal(t, 3, exhausted["attempts"])
	assert.Equal(t, 3, exhausted["max_attempts"])

	got, _ = said(t, vocabulary.NoETL, 3, errBusiness)
	assert.Equal(t, strings.Fields("action_started action_error step_failed_terminal execution_failed"), got, "a terminal failure")
	_, events = said(t, vocabulary.NoETL, core.Unlimited, errUnavailable)
	assert.Nil(t, events[2].Fields["context"].(map[string]any)["max_attempts"], "no limit")
}

func quoted(err error) string { return fmt.Sprintf("%q", err) }

// "Work item lifecycle with retries".
func TestArgyllTimeline(t *testing.T) {
	got, events := said(t, vocabulary.Argyll, 2, errUnavailable)
	assert.Equal(t, strings.Fields("work_started work_not_completed work_retry_scheduled work_started work_succeeded"), got)
	scheduled := events[2].Fields
	assert.Equal(t, 1, scheduled["retry_count"])
	assert.Equal(t, "2000-01-01T00:00:01Z", scheduled["next_retry_at"], "one second after the bubble began")
	assert.Equal(t, errUnavailable.Error(), scheduled["error"])
	assert.Equal(t, "run/step", scheduled["token"])
	for _, e := range events {
		assert.Equal(t, "run/step", e.Fields["token"], "the same for all attempts")
	}
	got, _ = said(t, vocabulary.Argyll, 1, errUnavailable)
	assert.Equal(t, strings.Fields("work_started work_not_completed work_failed"), got)
	got, _ = said(t, vocabulary.Argyll, 3, status(404))
	assert.Equal(t, strings.Fields("work_started work_failed"), got)
}

func TestVocabularyCanBeExtended(t *testing.T) {
	words := vocabulary.Vocabulary(vocabulary.Argyll).With(func(r record.Record, said []vocabulary.Event) []vocabulary.Event {
		if r.Kind == record.KindRun && r.Status == record.StatusFailed {
			return append(said, vocabulary.Event{Name: "flow_failed"})
		}
		return said
	})
	got, _ := said(t, words, 1, errBusiness)
	assert.Equal(t, strings.Fields("work_started work_failed flow_failed"), got)
}
