package state_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestFinishedRunRefusesFurtherRootCallsUnlessAskedFor(t *testing.T) {
	for _, tt := range []struct {
		name string
		err  error // of the first call
		want snapshot.Status
	}{
		{"completed", nil, snapshot.StatusCompleted},
		{"failed", errors.New("no"), snapshot.StatusFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, ran := fileStore(t, t.TempDir()), 0
			first := testkit.Tool(t, "first", once, func(context.Context, string) (string, error) { return "one", tt.err })
			second := testkit.Tool(t, "second", once, testkit.Counted(&ran, testkit.Succeed))
			open := func(options ...state.Option) (*state.ExecutionState, error) {
				st, err := state.Open(t.Context(), s, "run-1", options...)
				require.NoError(t, err)
				_, err = testkit.Call(st.Context(t.Context()), first)
				assert.Equal(t, tt.err == nil, err == nil, "%v", err)
				err = nil
				if st.Report().Restored > 0 {
					_, err = testkit.Call(st.Context(t.Context()), second)
				}
				require.NoError(t, st.Close())
				return st, err
			}
			st, err := open()
			require.NoError(t, err)
			assert.Equal(t, tt.want, st.Status())

			st, err = open()
			require.ErrorIs(t, err, state.ErrEnded)
			require.ErrorIs(t, err, core.ErrInterrupted, "it is not a failure")
			assert.ErrorContains(t, err, "second")
			assert.ErrorContains(t, err, "state.WithFurtherCalls")
			assert.Zero(t, ran)
			assert.Equal(t, tt.want, st.Status(), "the outcome of the run is final")

			st, err = open(state.WithFurtherCalls())
			require.NoError(t, err)
			assert.Equal(t, 1, ran)
			assert.Equal(t, snapshot.StatusCompleted, st.Status(), "the status is that of the last root call")

			_, err = open()
			require.NoError(t, err, "the further call is now in the records")
			assert.Equal(t, 1, ran)
		})
	}
}

func TestRunWhoseFailedCallIsMadeAgainMakesFurtherCalls(t *testing.T) {
	s, broken := memstore.New(), true
	program := func(ctx context.Context) error {
		_, err := testkit.Call(ctx, testkit.Tool(t, "first", once, func(context.Context, string) (string, error) {
			if broken {
				return "", errors.New("no")
			}
			return "one", nil
		}))
		if err != nil {
			return err
		}
		_, err = testkit.Call(ctx, testkit.Tool(t, "second", once, testkit.Succeed))
		return err
	}
	open := func(options ...state.Option) error {
		st, err := state.Open(t.Context(), s, "run-1", options...)
		require.NoError(t, err)
		defer st.Close()
		return program(st.Context(t.Context()))
	}
	require.ErrorContains(t, open(), "no")
	broken = false
	require.NoError(t, open(state.WithRerunFailed()))
	require.NoError(t, open())
}

func TestRunInWhichNothingWasCalledIsInterrupted(t *testing.T) {
	s := memstore.New()
	open := func() snapshot.Status {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		require.NoError(t, state.Put(st.Context(t.Context()), "key", 1))
		require.NoError(t, st.Close())
		return st.Status()
	}
	for range 2 {
		assert.Equal(t, snapshot.StatusInterrupted, open())
		info, err := s.Info(t.Context(), "run-1")
		require.NoError(t, err)
		assert.Equal(t, snapshot.Stop{Reason: record.InterruptClosed, Message: "before a call was made with its context"}, info.Stop)
	}
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusCompleted, st.Status())
}

// The errors for requests that a run refuses because it has ended all say so, whatever else they
// say.
func TestRequestsToARunThatHasEndedSayThatItHas(t *testing.T) {
	stop := func(ask func(context.Context, snapshot.Store, string, snapshot.Stop) error) func(context.Context, snapshot.Store) error {
		return func(ctx context.Context, s snapshot.Store) error { return ask(ctx, s, "run", snapshot.Stop{By: "ops"}) }
	}
	again := func(ask func(context.Context, snapshot.Store, string) (snapshot.Info, error)) func(context.Context, snapshot.Store) error {
		return func(ctx context.Context, s snapshot.Store) error { _, err := ask(ctx, s, "run"); return err }
	}
	requests := map[string]func(context.Context, snapshot.Store) error{
		"interrupt": stop(state.Interrupt), "cancel": stop(state.Cancel), "resume": again(state.Resume), "retry": again(state.Retry),
		"signal": func(ctx context.Context, s snapshot.Store) error {
			return state.Signal(ctx, s, "run", "paid", 1, state.SignalOptions{})
		},
	}
	refusals := map[string]error{"interrupt": state.ErrNotRunning, "resume": state.ErrNotInterrupted, "retry": state.ErrNotFailed}
	for status, c := range map[snapshot.Status]struct {
		stop    snapshot.Stop
		is      error
		allowed string
	}{
		snapshot.StatusCompleted: {snapshot.Stop{}, state.ErrEnded, ""},
		snapshot.StatusFailed:    {snapshot.Stop{}, state.ErrEnded, "retry"},
		snapshot.StatusCancelled: {snapshot.Stop{Reason: record.InterruptCancel, By: "ann"}, state.ErrCancelled, "cancel"},
	} {
		for name, request := range requests {
			if name == c.allowed {
				continue
			}
			t.Run(string(status)+"/"+name, func(t *testing.T) {
				s := memstore.New()
				run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: status, Stop: c.stop}, func(func(record.Record, error) bool) {})
				require.NoError(t, err)
				_, err = s.Create(t.Context(), run)
				require.NoError(t, err)
				err = request(t.Context(), s)
				require.ErrorIs(t, err, c.is)
				if refusals[name] != nil {
					require.ErrorIs(t, err, refusals[name])
				}
			})
		}
	}
}

func TestRecalledFailureOfAFailedRunSaysThatItIsRecorded(t *testing.T) {
	const (
		recorded = "agent/ask: permanent: no API key"
		note     = " (the recorded failure: nothing ran again); to make the failed calls again: reprise --dir DIR retry run-1 (state.Retry, state.WithRerunFailed)"
	)
	for _, tt := range []struct {
		name    string
		options []state.Option
		killed  bool // the first process is killed after the failure
		reports bool // the program makes another call, with the text of the failure
		want    string
	}{
		{name: "failed", want: recorded + note},
		{name: "killed", killed: true, want: recorded},
		{name: "further calls may contain the text", options: []state.Option{state.WithFurtherCalls()}, want: recorded},
		{name: "another call contains the text", reports: true, want: "report: permanent: no mail" + note},
	} {
		t.Run(tt.name, func(t *testing.T) {
			errNoKey, ran := errors.New("no API key"), 0
			ask := testkit.Tool(t, "ask", once, testkit.Counted(&ran, testkit.Fail(core.Permanent(errNoKey))))
			report := testkit.Tool(t, "report", once, testkit.Fail(core.Permanent(errors.New("no mail"))))
			agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
				_, err := testkit.Call(ctx, ask)
				require.EqualError(t, err, recorded, "a call inside says what it said before")
				return "", err
			})
			s := snapshot.Store(memstore.New())
			run := func() error {
				st, err := state.Open(t.Context(), s, "run-1", tt.options...)
				require.NoError(t, err)
				defer func() { require.NoError(t, st.Close()) }()
				_, err = testkit.Call(st.Context(t.Context()), agent)
				if tt.reports {
					require.EqualError(t, err, recorded)
					_, err = report.Event().Execute(st.Context(t.Context()), err.Error())
				}
				if tt.killed {
					s = killed(t, s, everyRecord)
				}
				return err
			}
			live := run()
			require.NotContains(t, live.Error(), "recorded failure", "it is new")
			for range 2 {
				err := run()
				require.EqualError(t, err, tt.want)
				require.EqualError(t, testkit.Failed(t, err, record.ReasonPermanent).Err, errors.Unwrap(live).Error())
			}
			assert.Equal(t, 1, ran)
			for _, rec := range testkit.LoadRun(t, s, "run-1").Records {
				assert.NotContains(t, fmt.Sprint(rec.Err), "recorded failure")
			}
		})
	}
}
