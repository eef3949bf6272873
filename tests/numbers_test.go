package tests

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// numbers are the numbers of a run that the report, the printer and the API have in common.
type numbers struct{ calls, completed, failed, asking, attempts, retries int }

// TestReportPrinterAndAPIHaveOneSetOfNumbers compares the numbers of a run after its first opening,
// and the totals after both openings. The calls of the run end in different ways.
func TestReportPrinterAndAPIHaveOneSetOfNumbers(t *testing.T) {
	store, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	console := printer.New(io.Discard)
	program, flaky := oneOfEach()

	first := openWith(t, store, console, flaky)
	_, err = program.Call(first.st.Context(t.Context()), order{"in"})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, first.st.Close())
	report, api, printed := first.st.Report(), first.numbers(t), numbersOf(console.Summary())
	assert.Equal(t, numbers{calls: 8, completed: 4, failed: 3, asking: 1, attempts: 12, retries: 5}, api)
	assert.Equal(t, api, printed)
	assert.Equal(t, numbers{completed: 4, failed: 3, attempts: 12, retries: 5},
		numbers{completed: report.Executed - 3, failed: 3, attempts: report.Attempts, retries: report.Retries})
	assert.Equal(t, report.Waited, console.Summary().Waited, "the total waiting time")
	assert.Equal(t, report.Usage, console.Summary().Usage)

	questions, err := state.Questions(t.Context(), store, "r1")
	require.NoError(t, err)
	require.Len(t, questions, 1)
	require.NoError(t, state.Answer(t.Context(), store, "r1", questions[0].ID, "ann", true))
	second := openWith(t, store, console, flaky)
	_, err = program.Call(second.st.Context(t.Context()), order{"in"})
	require.ErrorContains(t, err, "and yet")
	require.NoError(t, second.st.Close())
	again, api, printed := second.st.Report(), second.numbers(t), numbersOf(console.Summary())
	assert.Equal(t, numbers{calls: 9, completed: 5, failed: 4, attempts: 14, retries: 5}, api, "the agent is entered again, and its effect is compensated")
	assert.Equal(t, api, printed)
	assert.Equal(t, api.attempts, report.Attempts+again.Attempts)
	assert.Equal(t, api.completed+api.failed, report.Executed+again.Executed)
	assert.Equal(t, 1, again.Compensated)
	assert.Equal(t, 1, console.Summary().Compensations.Completed)
	assert.Equal(t, 1, console.Summary().Repeats)
	assert.Equal(t, again.Restored, console.Summary().Recalled)
}

type watched struct {
	st   *state.ExecutionState
	dash *streamer.Handler
}

func openWith(t *testing.T, store snapshot.Store, console *printer.Printer, flaky state.Compensable) watched {
	t.Helper()
	dash, err := streamer.New(stored.New(store), streamer.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, dash.Close(context.WithoutCancel(t.Context()))) })
	st, err := state.Open(t.Context(), store, "r1", state.WithPublisher(console), state.WithPublisher(dash), state.WithCompensations(flaky))
	require.NoError(t, err)
	return watched{st, dash}
}

func (w watched) numbers(t *testing.T) numbers {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/runs/r1", nil)
	req.RemoteAddr = "127.0.0.1:1"
	rr := httptest.NewRecorder()
	w.dash.ServeHTTP(rr, req)
	require.Equal(t, http.StatusOK, rr.Code, rr.Body)
	var body struct{ Run streamer.RunState }
	require.NoError(t, json.Unmarshal(rr.Body.Bytes(), &body))
	c := body.Run.Calls
	assert.Equal(t, c.Started, c.Active+c.Asking+c.Stopped+c.Completed+c.Failed)
	return numbers{c.Started, c.Completed, c.Failed, c.Asking, c.Attempts, c.Retries}
}

func numbersOf(s printer.Summary) numbers {
	all := s.All()
	return numbers{all.Calls(), all.Completed, all.Failed, all.Asking, s.Attempts, s.Retries}
}

// order is the input of the calls.
type order struct{ Item string }

// oneOfEach returns an agent whose calls end in different ways. It asks, and then fails.
func oneOfEach() (actors.Agent[order, string], state.Compensable) {
	once := true
	short := core.RetryConfig{MaxAttempts: 3, InitialDelay: 2 * time.Millisecond, Jitter: core.NoJitter}
	flaky := decorators.Tool("flaky", "", func(ctx context.Context, in order) (string, error) {
		core.AddUsage(ctx, core.Usage{InputTokens: 3})
		if once {
			once = false
			return "", core.Retryable(errors.New("not yet"))
		}
		return in.Item, nil
	}, actors.WithRetry(short)).Compensate(func(context.Context, order, string) error { return nil })
	cached := decorators.Tool("cached", "", func(_ context.Context, in order) (string, error) { return in.Item, nil },
		actors.WithCache(cache.New(cache.NewMemory(1<<20), cache.Options{}), "1", time.Hour))
	fragile := decorators.Tool("fragile", "", func(_ context.Context, in order) (string, error) { return in.Item, nil }).
		Require(func(context.Context, order) error { return errors.New("not today") })
	bad := decorators.Tool("bad", "", func(context.Context, order) (string, error) { return "", core.Retryable(errors.New("down")) }, actors.WithRetry(short))
	return decorators.Agent("agent", "", func(ctx context.Context, in order) (string, error) {
		if _, err := flaky.Call(ctx, in); err != nil {
			return "", err
		}
		for range 2 {
			if _, err := cached.Call(ctx, in); err != nil {
				return "", err
			}
		}
		_, _ = fragile.Call(ctx, in)
		if _, err := core.Step(ctx, "step", func(context.Context) (string, error) { return in.Item, nil }); err != nil {
			return "", err
		}
		_, _ = actors.Map(ctx, actors.Group{Name: "g", CollectAll: true}, bad, []order{{"a"}, {"b"}})
		if _, err := core.Await[bool](ctx, "go on?"); err != nil {
			return "", err
		}
		return "", core.Permanent(errors.New("and yet"))
	}), flaky
}
