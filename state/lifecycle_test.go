package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestTimeoutInterruptsTheRun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		if err := st.SetTimeout(time.Minute); err != nil {
			t.Fatal(err)
		}
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Listening(time.Hour)))
		testkit.Interrupted(t, err, record.InterruptTimeout)
		assert.Equal(t, time.Minute, elapsed(), "time")
		assert.Equal(t, record.InterruptTimeout, st.Interrupted().Reason, "reason")
		if !strings.Contains(err.Error(), "1m0s") {
			t.Errorf("%q does not name the limit", err)
		}
		assert.False(t, st.CancelTimeout(), "cancelled in time")
		st.Close()
		assert.Equal(t, snapshot.StatusInterrupted, st.Status(), "status")
	})
}

func TestTimeoutWakesAWait(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_ = st.SetTimeout(500 * time.Millisecond)
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(errFlaky)))
		testkit.Interrupted(t, err, record.InterruptTimeout)
		assert.Equal(t, 500*time.Millisecond, elapsed(), "time")
	})
}

func TestLaterTimeoutReplacesTheEarlier(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_ = st.SetTimeout(time.Minute)
		<-time.After(30 * time.Second)
		_ = st.SetTimeout(2 * time.Minute)
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Listening(time.Hour)))
		testkit.Interrupted(t, err, record.InterruptTimeout)
		assert.Equal(t, 2*time.Minute, elapsed(), "time")
	})
}

func TestCancelledTimeoutDoesNothing(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		assert.False(t, st.CancelTimeout(), "without one")
		_ = st.SetTimeout(time.Minute)
		assert.True(t, st.CancelTimeout(), "in time")
		assert.False(t, st.CancelTimeout(), "twice")
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Listening(time.Hour)))
		testkit.Completed(t, out, err)
	})
}

func TestTimeoutMustBeAboveZero(t *testing.T) {
	st, _ := testkit.Run(t)
	for _, d := range []time.Duration{0, -1} {
		if err := st.SetTimeout(d); err == nil || !strings.Contains(err.Error(), "want more than 0") {
			t.Errorf("SetTimeout(%v): %v", d, err)
		}
	}
}

func TestCloseStopsTheTimeout(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		_ = st.SetTimeout(time.Minute)
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Succeed))
		testkit.Completed(t, out, err)
		st.Close()
		<-time.After(time.Hour)
		assert.Equal(t, snapshot.StatusCompleted, st.Status(), "status")
		wantRecords(t, st, "run started", "tool_call tool started", "tool_call tool completed", "run completed")
	})
}

func TestStatusSaysHowTheRunEnded(t *testing.T) {
	for _, tt := range []struct {
		name string
		do   func(t *testing.T, st *state.ExecutionState)
		want snapshot.Status
	}{
		{"nothing was called", func(*testing.T, *state.ExecutionState) {}, snapshot.StatusInterrupted},
		{"completed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
		}, snapshot.StatusCompleted},
		{"failed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Fail(errBoom)))
		}, snapshot.StatusFailed},
		{"precondition failed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed).Require(func(context.Context, string) error { return errBoom }))
		}, snapshot.StatusFailed},
		{"failed, then completed", func(t *testing.T, st *state.ExecutionState) {
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Fail(errBoom)))
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
		}, snapshot.StatusCompleted},
		{"a child failed", func(t *testing.T, st *state.ExecutionState) {
			child := testkit.Tool(t, "child", once, testkit.Fail(errBoom))
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
				_, _ = testkit.Call(ctx, child)
				return "out", nil
			}))
		}, snapshot.StatusCompleted},
		{"interrupted before any call", func(_ *testing.T, st *state.ExecutionState) { st.Interrupt(snapshot.Stop{}) }, snapshot.StatusInterrupted},
		{"interrupted in a call", func(t *testing.T, st *state.ExecutionState) {
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
				st.Interrupt(snapshot.Stop{})
				return "", ctx.Err()
			}))
		}, snapshot.StatusInterrupted},
		{"root context cancelled", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, _ = testkit.Call(st.Context(ctx), testkit.Tool(t, "tool", once, testkit.Listening(time.Hour)))
		}, snapshot.StatusInterrupted},
		{"root context cancelled during a group at the root", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := group(st.Context(ctx), "all", calling(testkit.Tool(t, "tool", once, testkit.Listening(time.Hour))))
			testkit.Interrupted(t, err, record.InterruptContext)
		}, snapshot.StatusInterrupted},
		{"suspended before its first attempt", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = testkit.Call(st.Context(ctx), testkit.Tool(t, "tool", once, testkit.Succeed))
		}, snapshot.StatusInterrupted},
		{"one of several was suspended", func(t *testing.T, st *state.ExecutionState) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = testkit.Call(st.Context(ctx), testkit.Tool(t, "tool", once, testkit.Succeed))
			_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", once, testkit.Succeed))
		}, snapshot.StatusInterrupted},
		{"a child was interrupted by its parent's timeout", func(t *testing.T, st *state.ExecutionState) {
			child := testkit.Tool(t, "child", once, testkit.Listening(time.Hour))
			out, err := testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", core.RetryConfig{AttemptTimeout: time.Second},
				testkit.Attempts(func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, child) }, testkit.Succeed)))
			testkit.Completed(t, out, err)
		}, snapshot.StatusCompleted},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st := state.New()
				tt.do(t, st)
				assert.Equal(t, snapshot.StatusRunning, st.Status(), "status before Close")
				st.Close()
				assert.Equal(t, tt.want, st.Status(), "status")
				records := testkit.Records(t, st)
				last := records[len(records)-1]
				assert.Equal(t, record.KindRun, last.Kind, "last record")
				assert.Equal(t, string(tt.want), last.Status.String(), "its status")
			})
		})
	}
}

func TestCloseTwiceIsFine(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st := state.New()
		for range 3 {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		}
		wantRecords(t, st, "run started", "run interrupted")
	})
}

func TestCloseFromManyGoroutinesWaitsInEach(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		go func() { _, _ = testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Deaf(50*time.Millisecond))) }()
		<-time.After(10 * time.Millisecond)
		elapsed := testkit.Stopwatch()
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() {
				st.Close()
				assert.Equal(t, 40*time.Millisecond, elapsed(), "time")
			})
		}
		wg.Wait()
		wantRecords(t, st, "run started", "tool_call tool started", "tool_call tool completed", "run completed")
	})
}

func TestCloseInterruptsRunningCalls(t *testing.T) {
	for name, h := range map[string]testkit.Handler{"in the handler": testkit.Listening(time.Hour), "in a wait": testkit.Fail(errFlaky)} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				ended := make(chan error)
				go func() {
					_, err := testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour}, h))
					ended <- err
				}()
				<-time.After(time.Second)
				elapsed := testkit.Stopwatch()
				go st.Close()
				err := <-ended
				testkit.Interrupted(t, err, record.InterruptClosed)
				assert.Equal(t, time.Duration(0), elapsed(), "time")
				st.Close()
				assert.Equal(t, snapshot.StatusInterrupted, st.Status(), "status")
				records := testkit.Records(t, st)
				assert.Equal(t, record.StatusInterrupted, records[len(records)-2].Status, "last record of the call")
			})
		})
	}
}

func TestCloseWaitsATenthOfASecondForAHandlerThatDoesNotListen(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		ended := make(chan error)
		go func() {
			_, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Deaf(time.Minute)))
			ended <- err
		}()
		<-time.After(time.Second)
		elapsed := testkit.Stopwatch()
		st.Close()
		assert.Equal(t, 100*time.Millisecond, elapsed(), "time")
		assert.Equal(t, snapshot.StatusInterrupted, st.Status(), "status")
		assert.ErrorIs(t, <-ended, state.ErrClosed)
		wantRecords(t, st, "run started", "tool_call tool started", "run interrupted")
	})
}

func TestContextHasEndedAfterClose(t *testing.T) {
	st, ctx := testkit.Run(t)
	st.Close()
	for _, ctx := range []context.Context{ctx, st.Context(t.Context())} {
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
		testkit.Interrupted(t, context.Cause(ctx), record.InterruptClosed)
	}
}

func TestRunIsFoundInItsContexts(t *testing.T) {
	st, ctx := testkit.Run(t, state.WithRunID("run-1"), state.WithMetadata(snapshot.Metadata{Pipeline: "nightly", Tags: []string{"a"}}))
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		found := state.From(context.WithoutCancel(ctx))
		assert.Equal(t, "run-1", found.RunID(), "id")
		assert.Equal(t, "nightly", found.Metadata().Pipeline, "pipeline")
		return "out", nil
	}))
	testkit.Completed(t, out, err)
	st.Metadata().Tags[0] = "changed"
	assert.Equal(t, "a", st.Metadata().Tags[0], "tag")
	if state.From(t.Context()) != nil {
		t.Error("a run was found in a context without one")
	}
}

func TestRunsDoNotShareAnything(t *testing.T) {
	one, ctx := testkit.Run(t)
	two, _ := testkit.Run(t)
	if one.RunID() == two.RunID() {
		t.Error("two runs have one ID")
	}
	out, err := testkit.Call(ctx, testkit.Tool(t, "outer", once, func(ctx context.Context, _ string) (string, error) {
		return testkit.Call(two.Context(ctx), testkit.Tool(t, "inner", once, testkit.Succeed)) // a call in one run inside a call in the other
	}))
	testkit.Completed(t, out, err)
	wantRecords(t, one, "run started", "tool_call outer started", "tool_call outer completed")
	wantRecords(t, two, "run started", "tool_call inner started", "tool_call inner completed")
}

func TestLastRecordOfARunThatFailedSaysWhy(t *testing.T) {
	for name, store := range map[string]snapshot.Store{"in memory": nil, "in a store": memstore.New()} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				begin := func() *state.ExecutionState {
					if store == nil {
						return state.New()
					}
					st, err := state.Open(t.Context(), store, "r")
					require.NoError(t, err)
					return st
				}
				last := func(st *state.ExecutionState) record.Record {
					require.NoError(t, st.Close())
					records := testkit.Records(t, st)
					return records[len(records)-1]
				}
				fails := func(st *state.ExecutionState) {
					_, _ = testkit.Call(st.Context(t.Context()), testkit.Tool(t, "tool", steady, testkit.Fail(errFlaky)))
				}
				st := begin()
				fails(st)
				rec := last(st)
				assert.Equal(t, record.StatusFailed, rec.Status, "status")
				assert.Equal(t, record.ReasonExhausted, rec.Reason, "reason")
				assert.Equal(t, "tool: exhausted after 3 attempts: flaky", fmt.Sprint(rec.Err), "error")
				assert.True(t, errors.Is(rec.Err, core.ErrExhausted), "is exhausted")
				if store == nil {
					return
				}
				st = begin()
				fails(st) // recalled
				rec = last(st)
				assert.Equal(t, "tool: exhausted after 3 attempts: flaky", fmt.Sprint(rec.Err), "error")
			})
		})
	}
}

func TestFirstFailureOfAGroupIsThatOfTheRun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st := state.New()
		_, err := group(st.Context(t.Context()), "all", calling(testkit.Tool(t, "first", once, testkit.Succeed)),
			calling(testkit.Tool(t, "second", once, testkit.Fail(errBoom))), calling(testkit.Tool(t, "third", once, testkit.Fail(errFlaky))))
		assert.ErrorIs(t, err, errBoom)
		require.NoError(t, st.Close())
		records := testkit.Records(t, st)
		last := records[len(records)-1]
		assert.ErrorContains(t, last.Err, "boom")
	})
}
