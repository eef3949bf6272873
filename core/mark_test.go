package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

type asksForTime struct{ after time.Duration }

func (asksForTime) Error() string               { return "slow down" }
func (e asksForTime) RetryAfter() time.Duration { return e.after }
func (asksForTime) HTTPStatusCode() int         { return 429 }

func TestRetryAfterIsFoundInTheChain(t *testing.T) {
	for name, err := range map[string]error{
		"itself":  asksForTime{time.Second},
		"wrapped": fmt.Errorf("get: %w", asksForTime{time.Second}),
		"joined":  errors.Join(errBoom, asksForTime{time.Second}),
		"given":   core.WithRetryAfter(errBoom, time.Second),
		"marked":  core.Retryable(core.WithRetryAfter(errBoom, time.Second)),
	} {
		d, ok := core.RetryAfter(err)
		assert.Equal(t, time.Second, d, name)
		assert.True(t, ok, name)
	}
	for name, err := range map[string]error{"nil": nil, "none": errBoom, "zero": asksForTime{0}, "negative": asksForTime{-time.Second}} {
		if _, ok := core.RetryAfter(err); ok {
			t.Errorf("%s has a delay", name)
		}
	}
	if err := core.WithRetryAfter(nil, time.Second); err != nil {
		t.Error("nil became", err)
	}
	err := core.WithRetryAfter(errBoom, time.Second)
	assert.ErrorIs(t, err, errBoom)
	assert.Equal(t, "boom", err.Error(), "text")
}

func TestRetryAfterDoesNotMakeAnErrorRetryable(t *testing.T) {
	st, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(core.WithRetryAfter(errBoom, time.Second))))
	testkit.Failed(t, err, record.ReasonPermanent)
	wantRecords(t, st, "started(0) failed(0,permanent,unknown)")
}

func TestRetryAfterIsAFloorThatIsNeitherJitteredNorCapped(t *testing.T) {
	for _, jitter := range []core.Jitter{core.NoJitter, 0, 1, core.FullJitter, core.DecorrelatedJitter} {
		testkit.Bubble(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			elapsed := testkit.Stopwatch()
			cfg := core.RetryConfig{Jitter: jitter, MaxDelay: 10 * time.Second}
			out, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Failing(1, core.WithRetryAfter(errFlaky, 40*time.Second))))
			testkit.Completed(t, out, err)
			assert.Equal(t, 40*time.Second, elapsed(), "time")
			wantRecords(t, st, "started(0) failed(0,retry,connection) retrying(1,40s,retry_after) started(1) completed(1)")
			for _, r := range calls(t, st)[1:3] {
				assert.Equal(t, record.SourceServer, r.DelaySource, "source")
			}
		})
	}
}

func TestRetryAfterBelowTheBackoffChangesNothing(t *testing.T) {
	for _, after := range []time.Duration{time.Millisecond, time.Second} {
		testkit.Bubble(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Failing(1, core.WithRetryAfter(errFlaky, after))))
			testkit.Completed(t, out, err)
			wantRecords(t, st, "started(0) failed(0,retry,connection) retrying(1,1s) started(1) completed(1)")
		})
	}
}

func TestRetryAfterThatIsTooLongFailsTheCallAtOnce(t *testing.T) {
	limited := steady
	limited.MaxRetryAfter = 10 * time.Second
	long := steady
	long.InitialDelay, long.MaxRetryAfter = 20*time.Second, 10*time.Second
	for _, tt := range []struct {
		name  string
		cfg   core.RetryConfig
		after time.Duration
		want  record.Reason
	}{
		{"the default", steady, 5 * time.Minute, record.ReasonNone},
		{"above the default", steady, 5*time.Minute + 1, record.ReasonRetryAfterTooLong},
		{"the limit", limited, 10 * time.Second, record.ReasonNone},
		{"above the limit", limited, 10*time.Second + 1, record.ReasonRetryAfterTooLong},
		{"above the limit and below the backoff", long, 15 * time.Second, record.ReasonRetryAfterTooLong},
		{"for ever", steady, math.MaxInt64, record.ReasonRetryAfterTooLong},
		{"above the limit and longer than the time left", total(30 * time.Second), 5*time.Minute + 1, record.ReasonRetryAfterTooLong},
		{"longer than the time left", total(30 * time.Second), 31 * time.Second, record.ReasonRetryTimeout},
		{"the time left", total(30 * time.Second), 30 * time.Second, record.ReasonRetryTimeout},
		{"less than the time left", total(30 * time.Second), 29 * time.Second, record.ReasonNone},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				elapsed := testkit.Stopwatch()
				out, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.cfg, testkit.Failing(1, core.WithRetryAfter(errFlaky, tt.after))))
				if tt.want == record.ReasonNone {
					testkit.Completed(t, out, err)
					return
				}
				testkit.Failed(t, err, tt.want)
				assert.ErrorIs(t, err, sentinels[tt.want])
				assert.ErrorIs(t, err, errFlaky)
				wantRecords(t, st, "started(0) failed(0,"+tt.want.String()+",connection)")
				assert.Equal(t, time.Duration(0), elapsed(), "time")
			})
		})
	}
}

func TestRetryAfterThatIsTooLongCanBeCut(t *testing.T) {
	capped := steady
	capped.MaxRetryAfter, capped.CapRetryAfter = 10*time.Second, true
	for after, want := range map[time.Duration]string{
		time.Hour:       "started(0) failed(0,retry,connection) retrying(1,10s,retry_after) started(1) completed(1)",
		5 * time.Second: "started(0) failed(0,retry,connection) retrying(1,5s,retry_after) started(1) completed(1)",
	} {
		testkit.Bubble(t, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			out, err := testkit.Call(ctx, testkit.Tool(t, "tool", capped, testkit.Failing(1, core.WithRetryAfter(errFlaky, after))))
			testkit.Completed(t, out, err)
			wantRecords(t, st, want)
		})
	}
}

func TestRetryAfterBeyondTheCallersOwnDeadlineFailsTheCallAtOnce(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, nested(t, once, steady, testkit.Fail(core.WithRetryAfter(errFlaky, 31*time.Second)), within(30*time.Second)))
		assert.ErrorIs(t, err, core.ErrDeadline)
		assert.ErrorIs(t, err, errFlaky)
		assert.Equal(t, time.Duration(0), elapsed(), "time")
	})
}

func TestRetryAfterOfTheLastAttemptIsNotWaitedFor(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		elapsed := testkit.Stopwatch()
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Fail(core.WithRetryAfter(errFlaky, time.Hour))))
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.Equal(t, time.Duration(0), elapsed(), "time")
	})
}

// slip is an error whose methods panic on a nil pointer, which is a common mistake. Then the call
// must fail, but the process must not.
type slip struct {
	status int
	after  time.Duration
}

func (*slip) Error() string               { return "slip" }
func (e *slip) HTTPStatusCode() int       { return e.status }
func (e *slip) RetryAfter() time.Duration { return e.after }

type lateSlip struct{ after time.Duration }

func (*lateSlip) Error() string               { return "slip" }
func (e *lateSlip) RetryAfter() time.Duration { return e.after }

func TestErrorWhoseMethodsPanicFailsTheCall(t *testing.T) {
	every := core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}}
	for name, tt := range map[string]struct {
		cfg core.RetryConfig
		err error
	}{
		"status":                       {steady, (*slip)(nil)},
		"retry-after":                  {every, (*lateSlip)(nil)},
		"status after a total timeout": {total(time.Second), (*slip)(nil)},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("Execute panicked: %v", p)
					}
				}()
				_, ctx := testkit.Run(t)
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.cfg, testkit.Attempts(func(ctx context.Context, _ string) (string, error) {
					if tt.cfg.RetryTimeout > 0 {
						<-ctx.Done()
					}
					return "", tt.err
				})))
				if err == nil {
					t.Error("it did not fail")
				}
			})
		})
	}
}
