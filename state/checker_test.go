package state_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// asked is a checker that notes when it was asked, and answers with f.
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
	bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := run(t, asked(&at, nil))
		elapsed := stopwatch()
		out, err := call(ctx, actor(t, "tool", steady, attempts(fail(errFlaky), succeed)))
		completed(t, out, err)
		equal(t, "time", elapsed(), time.Second)
		want := []time.Duration{}
		for ms := 0; ms <= 1000; ms += 100 {
			want = append(want, time.Duration(ms)*time.Millisecond)
		}
		equal(t, "asked at", fmt.Sprint(at), fmt.Sprint(want))
	})
}

func TestCheckerIsAskedBeforeTheCallAfterPreconditionsAndAroundWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := run(t, asked(&at, nil))
		cfg := steady
		cfg.InitialDelay = 50 * time.Millisecond
		d := actor(t, "tool", cfg, attempts(func(ctx context.Context, _ string) (string, error) {
			_ = pause(ctx, time.Second)
			return "", errFlaky
		}, listening(time.Second))).Require(func(ctx context.Context, _ string) error { return pause(ctx, time.Second) })
		out, err := call(ctx, d)
		completed(t, out, err)
		// Before the call, after its precondition, before the wait. It ends 50ms
		// later, when the last answer is still good.
		equal(t, "asked at", fmt.Sprint(at), "[0s 1s 2s]")
	})
}

func TestCheckerInterruptsAtEachPoint(t *testing.T) {
	long := steady
	long.InitialDelay = 300 * time.Millisecond
	for _, tt := range []struct {
		name    string
		when    time.Duration // from when on it says so
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
			bubble(t, func(t *testing.T) {
				start := time.Now()
				st, ctx := run(t, state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) {
					if time.Since(start) < tt.when {
						return nil, nil
					}
					return &core.InterruptedError{Reason: "drain", By: "fleet"}, nil
				}))
				ran := 0
				_, err := call(ctx, actor(t, "tool", long, func(ctx context.Context, _ string) (string, error) {
					ran++
					_ = pause(ctx, time.Second)
					return "", errFlaky
				}).Require(func(ctx context.Context, _ string) error { return pause(ctx, time.Second) }))
				interrupted(t, err, "drain")
				equal(t, "time", time.Since(start), tt.stopped)
				equal(t, "by", st.Interrupted().By, "fleet")
				equal(t, "records", len(kinds(st, core.KindTool)), tt.records)
				equal(t, "handler ran", ran, min(tt.records-1, 1))
			})
		})
	}
}

func TestCheckerIsAskedForAllCallsTogether(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := run(t, asked(&at, nil))
		d := actor(t, "tool", core.RetryConfig{MaxAttempts: 2, Jitter: core.NoJitter}, fail(errFlaky))
		done := make(chan struct{})
		for range 50 {
			go func() {
				_, _ = call(ctx, d)
				done <- struct{}{}
			}()
		}
		for range 50 {
			<-done
		}
		equal(t, "asked", len(at), 11)
	})
}

func TestNoCheckerIsNotAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		out, err := call(ctx, actor(t, "tool", steady, attempts(fail(errFlaky), succeed)))
		completed(t, out, err)
	})
}

func TestCheckerThatFailsIsLoggedOnceAndChangesNothing(t *testing.T) {
	for name, f := range map[string]func(int) (*core.InterruptedError, error){
		"error": func(int) (*core.InterruptedError, error) { return nil, errBoom },
		"panic": func(int) (*core.InterruptedError, error) { panic(errBoom) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var at []time.Duration
				st, ctx := run(t, asked(&at, f))
				out, err := call(ctx, actor(t, "tool", steady, attempts(fail(errFlaky), succeed)))
				completed(t, out, err)
				equal(t, "asked", len(at), 11)
				lines := kinds(st, core.KindLog)
				equal(t, "lines", len(lines), 1)
				if d := lines[0].Detail; d.Severity != slog.LevelWarn || !strings.Contains(d.Message, "boom") {
					t.Errorf("%v: %s", d.Severity, d.Message)
				}
			})
		})
	}
}

func TestCheckerThatRecoversInterruptsLater(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var at []time.Duration
		_, ctx := run(t, asked(&at, func(n int) (*core.InterruptedError, error) {
			if n < 4 {
				return nil, errBoom
			}
			return &core.InterruptedError{Reason: core.InterruptUser}, nil
		}))
		elapsed := stopwatch()
		_, err := call(ctx, actor(t, "tool", steady, fail(errFlaky)))
		interrupted(t, err, core.InterruptUser)
		equal(t, "time", elapsed(), 300*time.Millisecond)
	})
}

func TestSlowCheckerEndsWithTheContextOfTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, _ := run(t, state.WithInterruptChecker(func(ctx context.Context) (*core.InterruptedError, error) {
			return nil, pause(ctx, time.Hour)
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		elapsed := stopwatch()
		_, err := call(st.Context(ctx), actor(t, "tool", steady, succeed))
		interrupted(t, err, core.InterruptContext)
		equal(t, "time", elapsed(), time.Second)
	})
}
