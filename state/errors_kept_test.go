package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// changing is an error whose text changes after it was returned.
type changing struct{ text string }

func (e *changing) Error() string { return e.text }

func TestErrorThatItsHandlerChangesLaterIsRecordedUnchanged(t *testing.T) {
	for name, st := range map[string]*state.ExecutionState{
		"memory": state.New(), "payloads": state.New(state.WithPayloads()), "stored": open(t, memstore.New()),
	} {
		e, n := new(changing), 0
		tool := testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: core.NoDelay}, func(context.Context, string) (string, error) {
			n++
			e.text = "failure " + strings.Repeat("I", n)
			return "", core.Retryable(e)
		})
		_, err := testkit.Call(st.Context(t.Context()), tool)
		require.ErrorIs(t, err, e, "the caller gets the error itself")
		e.text = "changed"
		require.NoError(t, st.Close())
		var failures, retries []string
		for _, r := range testkit.Records(t, st) {
			switch {
			case r.Kind != record.KindTool || r.Err == nil:
			case r.Status == record.StatusFailed:
				failures = append(failures, r.Err.Error())
			default:
				data, err := r.MarshalJSON()
				require.NoError(t, err)
				assert.Contains(t, string(data), `"original_error":"`+r.Err.Error()+`"`)
				assert.Contains(t, string(data), `"retry_delay":0`)
				retries = append(retries, r.Status.String()+": "+r.Err.Error())
			}
		}
		assert.Equal(t, []string{"failure I", "failure II", "failure III"}, failures, name)
		assert.Equal(t, []string{
			"retrying: failure I", "started: failure I", "retrying: failure II", "started: failure II",
		}, retries, name)
	}
}

func open(t *testing.T, s snapshot.Store) *state.ExecutionState {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	return st
}

// A service that answers with a page of HTML must not fill the journal.
func TestErrorTextIsKeptOnceAndBounded(t *testing.T) {
	s := memstore.New()
	st := open(t, s)
	page := strings.Repeat("<p>", 100_000)
	tool := testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: core.NoDelay}, testkit.Failing(2, core.Retryable(errors.New(page))))
	out, err := testkit.Call(st.Context(t.Context()), tool)
	testkit.Completed(t, out, err)
	require.NoError(t, st.Close())
	found, err := s.Load(t.Context(), "run-1")
	require.NoError(t, err)
	lengths := make(map[record.Status]int)
	for r, err := range found.Records() {
		require.NoError(t, err)
		if r.Err != nil {
			lengths[r.Status] += len([]rune(r.Err.Error()))
			assert.True(t, strings.HasSuffix(r.Err.Error(), "…"))
		}
	}
	assert.Equal(t, map[record.Status]int{record.StatusFailed: 2 * 4000, record.StatusRetrying: 2 * 200, record.StatusStarted: 2 * 200}, lengths)
}

// The wait for the second attempt is interrupted. If the resumed call then fails for good, its
// error still contains the whole error from the first attempt.
func TestResumedCallHasTheWholeErrorOfTheAttemptBefore(t *testing.T) {
	s := memstore.New()
	text := strings.Repeat("long ", 200)
	retry := core.RetryConfig{InitialDelay: 1, MaxDelay: 1}
	st, err := state.Open(t.Context(), s, "run-1", state.WithPublisher(testkit.Publisher(func(record.Record) {})))
	require.NoError(t, err)
	stopping := testkit.Tool(t, "tool", retry, func(ctx context.Context, _ string) (string, error) {
		if core.ScopeOf(ctx).Attempt() == 1 {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}
		return "", core.Retryable(errors.New(text))
	})
	_, err = testkit.Call(st.Context(t.Context()), stopping)
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NoError(t, st.Close())

	st = open(t, s)
	defer st.Close()
	ctx, cancel := context.WithCancel(st.Context(t.Context()))
	defer cancel()
	canceling := testkit.Tool(t, "tool", retry, func(ctx context.Context, _ string) (string, error) { cancel(); return "", ctx.Err() })
	_, err = testkit.Call(ctx, canceling)
	require.ErrorIs(t, err, context.Canceled)
	assert.ErrorContains(t, err, text, "before that")
}

// The properties that make an error retryable are recorded with it: an agent that gets the recorded
// error of its tool is retried like one that gets the original error.
func TestRecordedErrorIsRetryableLikeTheOriginal(t *testing.T) {
	for name, options := range map[string][]state.Option{"live": nil, "recorded": {state.WithRoundTrip()}} {
		attempts := 0
		tool := testkit.Tool(t, "tool", once, testkit.Fail(core.Retryable(errBoom)))
		agent := testkit.Agent(t, "agent", core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}, func(ctx context.Context, _ string) (string, error) {
			attempts++
			return testkit.Call(ctx, tool)
		})
		_, ctx := testkit.Run(t, options...)
		_, err := testkit.Call(ctx, agent)
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.Equal(t, 3, attempts, name)
	}
	assert.True(t, record.Inspect(record.ErrorOf(core.Retryable(errBoom))).Retryable)
	assert.False(t, record.Inspect(record.ErrorOf(errBoom)).Retryable)
}
