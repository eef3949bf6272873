package state_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A handler without a timeout may end its goroutine, so that nothing returns to
// the caller. The status of the run must then not be completed.
func TestHandlerThatEndsItsGoroutineHasFailed(t *testing.T) {
	s := new(tape)
	tool := testkit.Tool(t, "tool", steady, func(context.Context, string) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	agent := testkit.Agent(t, "agent", once, through(tool))
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = testkit.Call(st.Context(t.Context()), agent)
	}()
	<-left
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusFailed, st.Status())
	wantRecords(t, st, "run started", "agent_call agent started", "tool_call agent/tool started",
		"tool_call agent/tool failed", "agent_call agent failed", "run failed")

	_, err = openedFor(t, s, agent, undisturbed)
	testkit.Failed(t, err, record.ReasonPanic)
	assert.ErrorContains(t, err, "runtime.Goexit")
}

// A call whose goroutine ends before its outcome is known has no outcome: the run is then
// interrupted, and the next opening makes the call again.
func TestRunIsNotCompletedIfACallLeftItsGoroutine(t *testing.T) {
	exits := true
	exit := func() bool {
		if exits {
			runtime.Goexit() // like t.FailNow
		}
		return false
	}
	for name, stop := range map[string]core.RetryConfig{
		"RetryWhen": {RetryWhen: func(core.Attempt) bool { return exit() }},
		"StopWhen":  {StopWhen: func(core.Attempt) bool { return exit() }},
		"RetryOn":   {RetryOn: []core.Matcher{func(error) bool { return exit() }}},
	} {
		t.Run(name, func(t *testing.T) {
			exits = true
			stop.MaxAttempts = 1
			store := memstore.New()
			tool := decorators.Tool("tool", "", func(context.Context, struct{}) (string, error) { return "", errBusy }, actors.WithRetry(stop))
			st, err := state.Open(t.Context(), store, "run-1")
			require.NoError(t, err)
			left := make(chan struct{})
			go func() {
				defer close(left)
				_, _ = tool.Call(st.Context(t.Context()), struct{}{})
			}()
			<-left
			require.NoError(t, st.Close())
			assert.Equal(t, snapshot.StatusInterrupted, st.Status())

			exits = false
			st, err = state.Open(t.Context(), store, "run-1")
			require.NoError(t, err)
			_, err = tool.Call(st.Context(t.Context()), struct{}{})
			require.ErrorContains(t, err, "busy")
			require.NoError(t, st.Close())
			assert.Equal(t, snapshot.StatusFailed, st.Status())
		})
	}
}

// Close releases the run even if the user's code ends the goroutine that calls Close.
func TestCloseThatIsLeftReleasesTheRun(t *testing.T) {
	for name, c := range map[string]struct {
		option func(exit func()) state.Option
		status snapshot.Status
	}{
		"publisher": {func(exit func()) state.Option {
			return state.WithPublisher(testkit.Publisher(func(record.Record) { exit() }))
		}, snapshot.StatusFailed},
		"redaction": {func(exit func()) state.Option {
			return state.WithRedaction(func(text string) string { exit(); return text })
		}, snapshot.StatusFailed},
		"compensation": {nil, snapshot.StatusInterrupted},
	} {
		t.Run(name, func(t *testing.T) {
			store, closing := memstore.New(), false
			exit := func() {
				if closing {
					runtime.Goexit()
				}
			}
			pay := testkit.Tool(t, "pay", once, testkit.Succeed).Compensate(func(context.Context, string, string) error { exit(); return nil })
			open := func(options ...state.Option) (*state.ExecutionState, error) {
				return state.Open(t.Context(), store, "run-1", append(options, state.WithCompensations(pay))...)
			}
			options := []state.Option{state.WithPublisher(new(heard))}
			if c.option != nil {
				options = append(options, c.option(exit))
			}
			st, err := open(options...)
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), pay)
			require.NoError(t, err)
			if c.option == nil {
				st.Cancel(snapshot.Stop{By: "ops"})
			} else {
				_, err = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Fail(errBoom)))
				require.Error(t, err)
			}
			closing = true
			left := make(chan struct{})
			go func() {
				defer close(left)
				_ = st.Close()
			}()
			<-left
			require.NoError(t, st.Close(), "it does not wait for ever")
			assert.Equal(t, c.status, st.Status())
			closing = false
			again, err := open()
			if c.option == nil {
				require.ErrorIs(t, err, state.ErrCancelled)
				info, err := store.Info(t.Context(), "run-1")
				require.NoError(t, err)
				assert.Equal(t, snapshot.StatusCancelled, info.Status)
				return
			}
			require.NoError(t, err, "it is not locked")
			require.NoError(t, again.Close())
		})
	}
}

// An armedError calls its function in each of its methods.
type armedError struct{ fire func() }

func (e armedError) Error() string   { e.fire(); return "armed" }
func (e armedError) Is(error) bool   { e.fire(); return false }
func (e armedError) As(any) bool     { e.fire(); return false }
func (e armedError) Unwrap() []error { e.fire(); return nil }

// Close releases the run even if a method of the error that stopped the run does not return.
func TestCloseReleasesARunWhoseErrorDoesNotReturn(t *testing.T) {
	for name, leave := range map[string]func(){
		"Goexit": runtime.Goexit,
		"panic":  func() { panic("boom") },
	} {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stored=%t", name, stored), func(t *testing.T) {
				closing := false
				cause := armedError{func() {
					if closing {
						leave()
					}
				}}
				stopping := state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) {
					return &core.InterruptedError{Reason: record.InterruptUser, By: "ops", Message: "enough", Cause: cause}, nil
				})
				store, st := memstore.New(), state.New(stopping)
				if stored {
					var err error
					st, err = state.Open(t.Context(), store, "run-1", stopping)
					require.NoError(t, err)
				}
				_, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
				require.ErrorIs(t, err, core.ErrInterrupted)
				closing = true
				left := make(chan struct{})
				go func() {
					defer close(left)
					defer func() { _ = recover() }()
					_ = st.Close()
				}()
				<-left
				require.NoError(t, st.Close(), "it does not wait for ever")
				assert.Equal(t, snapshot.StatusInterrupted, st.Status())
				last := lastRecord(t, st)
				require.NotNil(t, last.Interrupt(), "the end is recorded")
				assert.Equal(t, "ops", last.Interrupt().By)
				if !stored {
					return
				}
				info, err := store.Info(t.Context(), "run-1")
				require.NoError(t, err)
				assert.False(t, info.Open)
				assert.Equal(t, snapshot.Stop{Reason: record.InterruptUser, By: "ops", Message: "enough"}, info.Stop)
			})
		}
	}
}
