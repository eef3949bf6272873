package seeds

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/breaker"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/policy/retrybudget"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer/vocabulary"
)

// said executes a run with a single step. It returns the names of the run's events, and the events.
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

// "Event Timeline Example": both examples.
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
	got, _ = said(t, vocabulary.NoETL, 1, errUnavailable)
	assert.Equal(t, strings.Fields("action_started action_error step_failed_terminal execution_failed"), got, "no retry configured")
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
		assert.Equal(t, "run/step", e.Fields["token"], "all attempts have the same token")
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

// eventsOf returns the events of a run that executes the program.
func eventsOf(t *testing.T, v vocabulary.Vocabulary, program func(ctx context.Context)) (events []vocabulary.Event) {
	t.Helper()
	testkit.Bubble(t, func(t *testing.T) {
		st := state.New(state.WithRunID("run"), state.WithPublisher(testkit.Publisher(v.Subscriber(func(e vocabulary.Event) { events = append(events, e) }))))
		program(st.Context(t.Context()))
		require.NoError(t, st.Close())
	})
	return events
}

func names(events []vocabulary.Event) (names []string) {
	for _, e := range events {
		names = append(names, e.Name)
	}
	return names
}

type order struct {
	For string `json:"for"`
}

// booked calls an agent that fails after its tool has completed. The tool's compensation succeeds
// at its second attempt.
func booked(ctx context.Context) {
	undos := 0
	book := decorators.Tool("book", "Books a seat.", func(context.Context, order) (string, error) { return "seat", nil },
		actors.WithRetry(core.RetryConfig{Jitter: core.NoJitter})).Compensate(func(context.Context, order, string) error {
		if undos++; undos < 2 {
			return errUnavailable
		}
		return nil
	})
	_, _ = decorators.Agent("trip", "Books a trip.", func(ctx context.Context, o order) (string, error) {
		if _, err := book.Call(ctx, o); err != nil {
			return "", err
		}
		return "", errBusiness
	}).Call(ctx, order{"Oslo"})
}

// answered makes two calls. The second one is answered from a cache.
func answered(ctx context.Context) {
	weather := decorators.Tool("weather", "Current weather.", func(context.Context, order) (string, error) { return "4 °C", nil },
		actors.WithCache(cache.New(cache.NewMemory(1<<20), cache.Options{}), "1", time.Minute))
	for range 2 {
		_, _ = weather.Call(ctx, order{"Oslo"})
	}
}

// broken makes a call whose circuit breaker opens, lets a probe through, and closes again.
func broken(ctx context.Context) {
	attempts := 0
	pay := decorators.Tool("pay", "Pays.", func(context.Context, order) (string, error) {
		if attempts++; attempts < 2 {
			return "", errUnavailable
		}
		return "paid", nil
	}, actors.WithInterceptors(breaker.New(breaker.Options{Name: "payments", Failures: 1, OpenFor: 30 * time.Second}).Interceptor()),
		actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, Jitter: core.NoJitter}))
	_, _ = pay.Call(ctx, order{"4 EUR"})
}

// spent makes a call that uses up its retry budget.
func spent(ctx context.Context) {
	budget := retrybudget.New(retrybudget.Options{Retries: 1})
	_, _ = decorators.Tool("ask", "Asks.", func(context.Context, order) (string, error) { return "", errUnavailable },
		actors.WithInterceptors(budget.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: 5, Jitter: core.NoJitter})).Call(ctx, order{})
}

func TestNoETLSaysWhatItHasNoWordFor(t *testing.T) {
	events := eventsOf(t, vocabulary.NoETL, booked)
	assert.Equal(t, strings.Fields(`
		action_started action_started action_completed step_completed
		action_error step_failed_terminal
		action_started action_error step_retry action_started action_completed step_completed
		execution_failed`), names(events))
	for _, e := range events[6:12] {
		assert.Equal(t, "compensation", e.Fields["node_type"], e.Name)
		assert.Equal(t, "trip/book@undo/book", e.Fields["node_id"], e.Name)
	}
	assert.Equal(t, "tool_call", events[2].Fields["node_type"])

	events = eventsOf(t, vocabulary.NoETL, answered)
	assert.Equal(t, strings.Fields("action_started action_completed step_completed action_started action_completed step_completed"), names(events))
	assert.NotContains(t, events[2].Fields["context"], "cached")
	assert.Equal(t, map[string]any{"attempt": 1, "success": true, "cached": true}, events[5].Fields["context"])

	events = eventsOf(t, vocabulary.NoETL, broken)
	assert.Equal(t, strings.Fields(`
		action_started breaker_opened action_error step_retry
		action_started action_error step_retry
		action_started breaker_half_opened breaker_closed action_completed step_completed`), names(events))
	opened, err := json.Marshal(events[1])
	require.NoError(t, err)
	assert.JSONEq(t, `{"event_type": "breaker_opened", "execution_id": "run", "node_id": "pay", "breaker": "payments",
		"message": "circuit breaker \"payments\" is open for 30s"}`, string(opened))
	assert.NotContains(t, events[3].Fields["context"], "delay_source")
	assert.Equal(t, "breaker", events[6].Fields["context"].(map[string]any)["delay_source"])

	events = eventsOf(t, vocabulary.NoETL, spent)
	assert.Equal(t, strings.Fields(`
		action_started action_error step_retry
		action_started action_error step_retry_exhausted step_failed_terminal execution_failed`), names(events))
	exhausted := events[5].Fields["context"].(map[string]any)
	assert.Equal(t, "budget", exhausted["reason"])
	assert.Equal(t, 2, exhausted["attempts"])
	assert.Equal(t, 5, exhausted["max_attempts"])
}

func TestArgyllSaysWhatItHasNoWordFor(t *testing.T) {
	events := eventsOf(t, vocabulary.Argyll, booked)
	assert.Equal(t, strings.Fields(`
		work_started work_started work_succeeded work_failed
		compensation_started compensation_not_completed compensation_retry_scheduled compensation_started compensation_succeeded`), names(events))
	for _, e := range events[4:9] {
		assert.Equal(t, "run/trip/book@undo/book", e.Fields["token"], e.Name)
		assert.Equal(t, "book", e.Fields["step_id"], e.Name)
	}
	assert.Equal(t, 1, events[6].Fields["retry_count"])

	events = eventsOf(t, vocabulary.Argyll, answered)
	assert.Equal(t, strings.Fields("work_started work_succeeded work_started work_succeeded"), names(events))
	assert.NotContains(t, events[1].Fields, "cached")
	assert.Equal(t, true, events[3].Fields["cached"])

	events = eventsOf(t, vocabulary.Argyll, broken)
	assert.Equal(t, strings.Fields(`
		work_started breaker_opened work_not_completed work_retry_scheduled
		work_started work_not_completed work_retry_scheduled
		work_started breaker_half_opened breaker_closed work_succeeded`), names(events))
	assert.Equal(t, map[string]any{
		"flow_id": "run", "token": "run/pay", "breaker": "payments", "message": `circuit breaker "payments" is open for 30s`,
	}, events[1].Fields)

	events = eventsOf(t, vocabulary.Argyll, spent)
	assert.Equal(t, strings.Fields(`
		work_started work_not_completed work_retry_scheduled
		work_started work_not_completed work_failed`), names(events))
}

// "Compensation Retries": if a compensation has used up its attempts, this is reported as
// compensation_failed.
func TestArgyllCompensationFails(t *testing.T) {
	events := eventsOf(t, vocabulary.Argyll, func(ctx context.Context) {
		book := decorators.Tool("book", "Books a seat.", func(context.Context, order) (string, error) { return "seat", nil },
			actors.WithRetry(core.RetryConfig{MaxAttempts: 2, Jitter: core.NoJitter})).Compensate(func(context.Context, order, string) error { return errUnavailable })
		_, _ = decorators.Agent("trip", "Books a trip.", func(ctx context.Context, o order) (string, error) {
			_, _ = book.Call(ctx, o)
			return "", errBusiness
		}).Call(ctx, order{"Oslo"})
	})
	assert.Equal(t, strings.Fields(`
		work_started work_started work_succeeded work_failed
		compensation_started compensation_not_completed compensation_retry_scheduled
		compensation_started compensation_not_completed compensation_failed`), names(events))
}

// Replayed records cause no events, and a user's log lines are not mistaken for those of a breaker.
func TestVocabulariesSayNothingOfOtherRecords(t *testing.T) {
	opened := record.Record{Kind: record.KindLog, Status: record.StatusRecorded, Detail: &record.Detail{Metadata: map[string]any{"breaker": "payments", "state": "open"}}}
	for name, words := range map[string]vocabulary.Vocabulary{"NoETL": vocabulary.NoETL, "Argyll": vocabulary.Argyll} {
		assert.Len(t, words(opened), 1, name)
		replayed := opened
		replayed.Replayed = true
		assert.Empty(t, words(replayed), name)
		for _, metadata := range []map[string]any{nil, {"breaker": "payments"}, {"state": "open"}, {"breaker": "payments", "state": 1}, {"breaker": "payments", "state": "jammed"}} {
			other := opened
			other.Detail = &record.Detail{Metadata: metadata}
			assert.Empty(t, words(other), "%s: %v", name, metadata)
		}
		assert.Empty(t, words(record.Record{Kind: record.KindLog, Status: record.StatusRecorded}), name)
	}
}
