package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestTimeoutInterruptsTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		if err := st.SetTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		elapsed := stopwatch()
		_, err := call(ctx, actor(t, "tool", steady, listening(time.Hour)))
		interrupted(t, err, core.InterruptTimeout)
		equal(t, "time", elapsed(), time.Minute)
		equal(t, "reason", st.Interrupted().Reason, core.InterruptTimeout)
		if !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("%q does not name the limit", err)
		}
		equal(t, "cancelled in time", st.CancelTimeout(), false)
		st.Close()
		equal(t, "status", st.Status(), state.StatusInterrupted)
	})
}

func TestTimeoutWakesAWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_ = st.SetTimeout(500 * time.Millisecond)
		elapsed := stopwatch()
		_, err := call(ctx, actor(t, "tool", steady, fail(errFlaky)))
		interrupted(t, err, core.InterruptTimeout)
		equal(t, "time", elapsed(), 500*time.Millisecond)
	})
}

func TestLaterTimeoutReplacesTheEarlier(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_ = st.SetTimeout(time.Minute)
		<-time.After(30 * time.Second)
		_ = st.SetTimeout(2 * time.Minute)
		elapsed := stopwatch()
		_, err := call(ctx, actor(t, "tool", steady, listening(time.Hour)))
		interrupted(t, err, core.InterruptTimeout)
		equal(t, "time", elapsed(), 2*time.Minute)
	})
}

func TestCancelledTimeoutDoesNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		equal(t, "without one", st.CancelTimeout(), false)
		_ = st.SetTimeout(time.Minute)
		equal(t, "in time", st.CancelTimeout(), true)
		equal(t, "twice", st.CancelTimeout(), false)
		out, err := call(ctx, actor(t, "tool", steady, listening(time.Hour)))
		completed(t, out, err)
	})
}

func TestTimeoutMustBeAboveZero(t *testing.T) {
	st, _ := run(t)
	for _, d := range []time.Duration{0, -1} {
		if err := st.SetTimeout(d); err == nil || !strings.Contains(err.Error(), "above 0") {
			t.Errorf("SetTimeout(%v): %v", d, err)
		}
	}
}

func TestCloseStopsTheTimeout(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		_ = st.SetTimeout(time.Minute)
		out, err := call(ctx, actor(t, "tool", steady, succeed))
		completed(t, out, err)
		st.Close()
		<-time.After(time.Hour)
		equal(t, "status", st.Status(), state.StatusCompleted)
		told(t, st, "run started", "tool_call tool started", "tool_call tool completed", "run completed")
	})
}

func TestStatusTellsWhatBecameOfTheRun(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, st *state.ExecutionState)
		want state.Status
	}{
		{"nothing was called", func(*testing.T, *state.ExecutionState) {}, state.StatusCompleted},
		{"completed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, succeed))
		}, state.StatusCompleted},
		{"failed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, fail(errBoom)))
		}, state.StatusFailed},
		{"precondition failed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, succeed).Require(func(context.Context, string) error { return errBoom }))
		}, state.StatusFailed},
		{"failed, then completed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, fail(errBoom)))
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, succeed))
		}, state.StatusCompleted},
		{"a child failed", func(t *testing.T, st *state.ExecutionState) {
			child := actor(t, "child", once, fail(errBoom))
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
				_, _ = call(ctx, child)
				return "out", nil
			}))
		}, state.StatusCompleted},
		{"interrupted before any call", func(_ *testing.T, st *state.ExecutionState) { st.Interrupt(core.InterruptUser, "", "") }, state.StatusInterrupted},
		{"interrupted in a call", func(t *testing.T, st *state.ExecutionState) {
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
				st.Interrupt(core.InterruptUser, "", "")
				return "", ctx.Err()
			}))
		}, state.StatusInterrupted},
		{"root context cancelled", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = call(st.Context(ctx), actor(t, "tool", once, listening(time.Hour)))
		}, state.StatusInterrupted},
		{"root context cancelled during a group at the root", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := group(st.Context(ctx), "all", calling(actor(t, "tool", once, listening(time.Hour))))
			interrupted(t, err, core.InterruptContext)
		}, state.StatusInterrupted},
		{"suspended before its first attempt", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = call(st.Context(ctx), actor(t, "tool", once, succeed))
		}, state.StatusInterrupted},
		{"one of several was suspended", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = call(st.Context(ctx), actor(t, "tool", once, succeed))
			_, _ = call(st.Context(t.Context()), actor(t, "tool", once, succeed))
		}, state.StatusInterrupted},
		{"a child was interrupted by its parent's timeout", func(t *testing.T, st *state.ExecutionState) {
			child := actor(t, "child", once, listening(time.Hour))
			out, err := call(st.Context(t.Context()), actor(t, "tool", core.RetryConfig{AttemptTimeout: time.Second},
				attempts(func(ctx context.Context, _ string) (string, error) { return call(ctx, child) }, succeed)))
			completed(t, out, err)
		}, state.StatusCompleted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st := state.New()
				tt.do(t, st)
				equal(t, "status before Close", st.Status(), state.StatusRunning)
				st.Close()
				equal(t, "status", st.Status(), tt.want)
				records := st.Records()
				last := records[len(records)-1]
				equal(t, "last record", last.Kind, core.KindRun)
				equal(t, "its status", last.Status.String(), string(tt.want))
			})
		})
	}
}

func TestCloseTwiceIsFine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := state.New()
		for range 3 {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
		told(t, st, "run started", "run completed")
	})
}

func TestCloseFromManyGoroutinesWaitsInEach(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		go func() { _, _ = call(ctx, actor(t, "tool", once, deaf(50*time.Millisecond))) }()
		<-time.After(10 * time.Millisecond)
		elapsed := stopwatch()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				st.Close()
				equal(t, "time", elapsed(), 40*time.Millisecond)
			})
		}
		wg.Wait()
		told(t, st, "run started", "tool_call tool started", "tool_call tool completed", "run completed")
	})
}

func TestCloseInterruptsCallsUnderWay(t *testing.T) {
	for name, h := range map[string]handler{"in the handler": listening(time.Hour), "in a wait": fail(errFlaky)} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				ended := make(chan error)
				go func() {
					_, err := call(ctx, actor(t, "tool", core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}, h))
					ended <- err
				}()
				<-time.After(time.Second)
				elapsed := stopwatch()
				go st.Close()
				err := <-ended
				interrupted(t, err, core.InterruptClosed)
				equal(t, "time", elapsed(), 0)
				st.Close()
				equal(t, "status", st.Status(), state.StatusInterrupted)
				records := st.Records()
				equal(t, "last record of the call", records[len(records)-2].Status, core.StatusInterrupted)
			})
		})
	}
}

func TestCloseWaitsATenthOfASecondForAHandlerThatDoesNotListen(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		ended := make(chan error)
		go func() {
			_, err := call(ctx, actor(t, "tool", once, deaf(time.Minute)))
			ended <- err
		}()
		<-time.After(time.Second)
		elapsed := stopwatch()
		st.Close()
		equal(t, "time", elapsed(), 100*time.Millisecond)
		equal(t, "status", st.Status(), state.StatusInterrupted)
		is(t, <-ended, state.ErrClosed)
		told(t, st, "run started", "tool_call tool started", "run interrupted")
	})
}

func TestContextHasEndedAfterClose(t *testing.T) {
	st, ctx := run(t)
	st.Close()
	for _, ctx := range []context.Context{ctx, st.Context(t.Context())} {
		is(t, ctx.Err(), context.Canceled)
		interrupted(t, context.Cause(ctx), core.InterruptClosed)
	}
}

func TestRunIsFoundInItsContexts(t *testing.T) {
	st, ctx := run(t, state.WithRunID("run-1"), state.WithMetadata(state.Metadata{Pipeline: "nightly", Tags: []string{"a"}}))
	out, err := call(ctx, actor(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		found := state.From(context.WithoutCancel(ctx))
		equal(t, "id", found.RunID(), "run-1")
		equal(t, "pipeline", found.Metadata().Pipeline, "nightly")
		equal(t, "records", len(found.Records()), len(st.Records()))
		return "out", nil
	}))
	completed(t, out, err)
	st.Metadata().Tags[0] = "changed"
	equal(t, "tag", st.Metadata().Tags[0], "a")
	if state.From(t.Context()) != nil {
		t.Error("a context without a run has one")
	}
}

func TestRunsDoNotShareAnything(t *testing.T) {
	one, ctx := run(t)
	two, _ := run(t)
	if one.RunID() == two.RunID() {
		t.Error("two runs have one ID")
	}
	out, err := call(ctx, actor(t, "outer", once, func(ctx context.Context, _ string) (string, error) {
		return call(two.Context(ctx), actor(t, "inner", once, succeed)) // a run inside a call of another
	}))
	completed(t, out, err)
	told(t, one, "run started", "tool_call outer started", "tool_call outer completed")
	told(t, two, "run started", "tool_call inner started", "tool_call inner completed")
}

func TestLastRecordOfARunThatFailedSaysWhy(t *testing.T) {
	for name, store := range map[string]snapshot.Store{"in memory": nil, "in a store": snapshot.NewMemoryStore()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				begin := func() *state.ExecutionState {
					if store == nil {
						return state.New()
					}
					st, err := state.Open(t.Context(), store, "r")
					noError(t, err)
					return st
				}
				last := func(st *state.ExecutionState) core.Record {
					noError(t, st.Close())
					records := st.Records()
					return records[len(records)-1]
				}
				fails := func(st *state.ExecutionState) {
					_, _ = call(st.Context(t.Context()), actor(t, "tool", steady, fail(errFlaky)))
				}
				st := begin()
				fails(st)
				rec := last(st)
				equal(t, "status", rec.Status, core.StatusFailed)
				equal(t, "reason", rec.Reason, core.ReasonExhausted)
				equal(t, "error", fmt.Sprint(rec.Err), "tool: exhausted after 3 attempts: flaky")
				equal(t, "is exhausted", errors.Is(rec.Err, core.ErrExhausted), true)
				if store == nil {
					return
				}
				st = begin()
				fails(st) // recalled
				rec = last(st)
				equal(t, "error", fmt.Sprint(rec.Err), "tool: exhausted after 3 attempts: flaky")
			})
		})
	}
}

func TestFirstFailureOfAGroupIsThatOfTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st := state.New()
		_, err := group(st.Context(t.Context()), "all", calling(actor(t, "first", once, succeed)),
			calling(actor(t, "second", once, fail(errBoom))), calling(actor(t, "third", once, fail(errFlaky))))
		is(t, err, errBoom)
		noError(t, st.Close())
		records := st.Records()
		last := records[len(records)-1]
		equal(t, "error", strings.Contains(fmt.Sprint(last.Err), "boom"), true)
	})
}
