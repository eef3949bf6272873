package state_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// asked returns an option with a checker that appends the times of its calls to into and returns
// the result of f.
func asked(into *[]time.Duration, f func(n int) (*core.InterruptedError, error)) state.Option {
	start := time.Now()
	return state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) {
		*into = append(*into, time.Since(start))
		if f == nil {
			return nil, nil
		}
		return f(len(*into))
	})
}

func TestCheckerIsAskedEvery100msDuringWaits(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := testkit.Run(t, asked(&at, nil))
		elapsed := testkit.Stopwatch()
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Attempts(testkit.Fail(errFlaky), testkit.Succeed)))
		testkit.Completed(t, out, err)
		assert.Equal(t, time.Second, elapsed(), "time")
		want := []time.Duration{}
		for ms := 0; ms <= 1000; ms += 100 {
			want = append(want, time.Duration(ms)*time.Millisecond)
		}
		assert.Equal(t, fmt.Sprint(want), fmt.Sprint(at), "asked at")
	})
}

func TestCheckerIsAskedBeforeTheCallAfterPreconditionsAndAroundWaits(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := testkit.Run(t, asked(&at, nil))
		cfg := steady
		cfg.InitialDelay = 50 * time.Millisecond
		d := testkit.Tool(t, "tool", cfg, testkit.Attempts(func(ctx context.Context, _ string) (string, error) {
			_ = testkit.Pause(ctx, time.Second)
			return "", errFlaky
		}, testkit.Listening(time.Second))).Require(func(ctx context.Context, _ string) error { return testkit.Pause(ctx, time.Second) })
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		// Asked before the call, after its precondition and before the wait. The
		// wait ends 50ms later, when the last result is still valid.
		assert.Equal(t, "[0s 1s 2s]", fmt.Sprint(at), "asked at")
	})
}

func TestCheckerInterruptsAtEachPoint(t *testing.T) {
	long := steady
	long.InitialDelay = 300 * time.Millisecond
	for _, tt := range []struct {
		name    string
		when    time.Duration // when the checker begins to return the interrupt
		stopped time.Duration // when the call notices
		records int
	}{
		{"before the call", 0, 0, 1},
		{"after the preconditions", time.Second, time.Second, 1},
		{"before the wait", 2 * time.Second, 2 * time.Second, 4},
		{"during the wait", 2050 * time.Millisecond, 2100 * time.Millisecond, 4},
		{"at the end of the wait", 2300 * time.Millisecond, 2300 * time.Millisecond, 4},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				start := time.Now()
				st, ctx := testkit.Run(t, state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) {
					if time.Since(start) < tt.when {
						return nil, nil
					}
					return &core.InterruptedError{Reason: "drain", By: "fleet"}, nil
				}))
				ran := 0
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", long, func(ctx context.Context, _ string) (string, error) {
					ran++
					_ = testkit.Pause(ctx, time.Second)
					return "", errFlaky
				}).Require(func(ctx context.Context, _ string) error { return testkit.Pause(ctx, time.Second) }))
				testkit.Interrupted(t, err, "drain")
				assert.Equal(t, tt.stopped, time.Since(start), "time")
				assert.Equal(t, "fleet", st.Interrupted().By, "by")
				assert.Len(t, kinds(t, st, record.KindTool), tt.records, "records")
				assert.Equal(t, min(tt.records-1, 1), ran, "handler ran")
			})
		})
	}
}

func TestCheckerIsAskedForAllCallsTogether(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := testkit.Run(t, asked(&at, nil))
		d := testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 2, Jitter: core.NoJitter}, testkit.Fail(errFlaky))
		done := make(chan struct{})
		for range 50 {
			go func() {
				_, _ = testkit.Call(ctx, d)
				done <- struct{}{}
			}()
		}
		for range 50 {
			<-done
		}
		assert.Len(t, at, 11, "asked")
	})
}

func TestNoCheckerIsNotAsked(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Attempts(testkit.Fail(errFlaky), testkit.Succeed)))
		testkit.Completed(t, out, err)
	})
}

func TestCheckerThatFailsIsLoggedOnceAndChangesNothing(t *testing.T) {
	for name, f := range map[string]func(int) (*core.InterruptedError, error){
		"error": func(int) (*core.InterruptedError, error) { return nil, errBoom },
		"panic": func(int) (*core.InterruptedError, error) { panic(errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				var at []time.Duration
				st, ctx := testkit.Run(t, asked(&at, f))
				out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Attempts(testkit.Fail(errFlaky), testkit.Succeed)))
				testkit.Completed(t, out, err)
				assert.Len(t, at, 11, "asked")
				lines := kinds(t, st, record.KindLog)
				assert.Len(t, lines, 1, "lines")
				if d := lines[0].Detail; d.Severity != slog.LevelWarn || !strings.Contains(d.Message, "boom") {
					t.Errorf("%v: %s", d.Severity, d.Message)
				}
			})
		})
	}
}

func TestCheckerThatRecoversInterruptsLater(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := testkit.Run(t, asked(&at, func(n int) (*core.InterruptedError, error) {
			if n < 4 {
				return nil, errBoom
			}
			return &core.InterruptedError{Reason: record.InterruptUser}, nil
		}))
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(errFlaky)))
		testkit.Interrupted(t, err, record.InterruptUser)
		assert.Equal(t, 300*time.Millisecond, elapsed(), "time")
	})
}

func TestSlowCheckerEndsWithTheContextOfTheCall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, _ := testkit.Run(t, state.WithInterruptChecker(func(ctx context.Context) (*core.InterruptedError, error) {
			return nil, testkit.Pause(ctx, time.Hour)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(st.Context(ctx), testkit.Tool(t, "tool", steady, testkit.Succeed))
		testkit.Interrupted(t, err, record.InterruptContext)
		assert.Equal(t, time.Second, elapsed(), "time")
	})
}
