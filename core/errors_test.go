package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

var sentinels = map[record.Reason]error{
	record.ReasonPermanent: core.ErrPermanent, record.ReasonExhausted: core.ErrExhausted, record.ReasonRetryTimeout: core.ErrRetryTimeout,
	record.ReasonDeadline: core.ErrDeadline, record.ReasonContextCanceled: core.ErrContextCanceled, record.ReasonRetryAfterTooLong: core.ErrRetryAfterTooLong,
	record.ReasonCondition: core.ErrCondition, record.ReasonPrecondition: core.ErrPrecondition, record.ReasonPanic: core.ErrPanic,
	record.ReasonBudget: core.ErrBudget, record.ReasonInDoubt: core.ErrInDoubt, record.ReasonDivergence: core.ErrDivergence, record.ReasonStorage: core.ErrStorage,
	record.ReasonGroupTimeout: core.ErrGroupTimeout,
}

func TestEveryReasonMatchesOnlyItsOwnSentinel(t *testing.T) {
	names := make(map[string]bool)
	for reason, sentinel := range sentinels {
		err := fmt.Errorf("wrapped: %w", &core.CallError{Name: "tool", Reason: reason, Err: errBoom})
		assert.ErrorIs(t, err, sentinel)
		assert.ErrorIs(t, err, errBoom)
		for other, sentinel := range sentinels {
			if other != reason {
				assert.NotErrorIs(t, err, sentinel)
			}
		}
		if name := reason.String(); name == "" || names[name] {
			t.Errorf("the name of reason %d is %q", reason, name)
		} else {
			names[name] = true
		}
	}
	assert.Len(t, sentinels, int(record.ReasonGroupTimeout), "reasons")
}

func TestReasonsOnTheWire(t *testing.T) {
	want := "permanent exhausted retry_timeout deadline context_canceled retry_after_too_long condition precondition panic budget in_doubt divergence storage"
	got := ""
	for r := record.ReasonPermanent; r <= record.ReasonStorage; r++ {
		if r > record.ReasonPermanent {
			got += " "
		}
		got += r.String()
	}
	assert.Equal(t, want, got, "names")
}

// fault is an error type defined by a user.
type fault struct{ code int }

func (e *fault) Error() string { return fmt.Sprintf("fault %d", e.code) }

// No matter how a call ends, the caller finds the handler's error by value and by type.
func TestCallersFindTheirOwnErrorOnEveryPath(t *testing.T) {
	own := &fault{7}
	flaky := core.Retryable(own)
	soon := func(ctx context.Context, d *testkit.Definition) (string, error) { return within(time.Minute)(ctx, d) }
	after := func(err error) testkit.Handler {
		return func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", err }
	}
	later := core.RetryConfig{Jitter: core.NoJitter, InitialDelay: time.Hour, MaxDelay: time.Hour}
	for _, tt := range []struct {
		name   string
		d      func(t *testing.T) *testkit.Definition
		around func(context.Context, *testkit.Definition) (string, error)
		want   []error
	}{
		{"permanent", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", steady, testkit.Fail(own)) }, testkit.Call, []error{core.ErrPermanent}},
		{"marked permanent", func(t *testing.T) *testkit.Definition {
			return testkit.Tool(t, "tool", steady, testkit.Fail(core.Permanent(own)))
		}, testkit.Call, []error{core.ErrPermanent}},
		{"exhausted", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", steady, testkit.Fail(flaky)) }, testkit.Call, []error{core.ErrExhausted}},
		{"disabled", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", once, testkit.Fail(flaky)) }, testkit.Call, []error{core.ErrExhausted}},
		{"retry timeout before a wait", func(t *testing.T) *testkit.Definition {
			return testkit.Tool(t, "tool", total(time.Second), testkit.Fail(flaky))
		}, testkit.Call, []error{core.ErrRetryTimeout, context.DeadlineExceeded}},
		{"retry timeout in an attempt", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", total(time.Second), after(own)) }, testkit.Call, []error{core.ErrRetryTimeout, context.DeadlineExceeded}},
		{"attempt timeout", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", timed(2), after(own)) }, testkit.Call, []error{core.ErrExhausted, context.DeadlineExceeded}},
		{"deadline before a wait", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", later, testkit.Fail(flaky)) }, soon, []error{core.ErrDeadline, context.DeadlineExceeded}},
		{"deadline in an attempt", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", steady, after(own)) }, soon, []error{core.ErrDeadline, context.DeadlineExceeded}},
		{"cancelled in a wait", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", later, testkit.Fail(flaky)) }, func(ctx context.Context, d *testkit.Definition) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return testkit.Call(ctx, d)
		}, []error{core.ErrContextCanceled, context.Canceled}},
		{"cancelled in an attempt", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", steady, after(own)) }, func(ctx context.Context, d *testkit.Definition) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return testkit.Call(ctx, d)
		}, []error{core.ErrContextCanceled, context.Canceled}},
		{"retry-after too long", func(t *testing.T) *testkit.Definition {
			return testkit.Tool(t, "tool", steady, testkit.Fail(core.WithRetryAfter(flaky, time.Hour)))
		}, testkit.Call, []error{core.ErrRetryAfterTooLong}},
		{"precondition", func(t *testing.T) *testkit.Definition {
			return testkit.Tool(t, "tool", steady, testkit.Succeed).Require(func(context.Context, string) error { return own })
		}, testkit.Call, []error{core.ErrPrecondition}},
		{"postcondition", func(t *testing.T) *testkit.Definition {
			return testkit.Tool(t, "tool", steady, testkit.Succeed).Ensure(func(context.Context, string, string) error { return own })
		}, testkit.Call, []error{core.ErrCondition, core.ErrExhausted}},
		{"panic", func(t *testing.T) *testkit.Definition {
			return testkit.Tool(t, "tool", steady, func(context.Context, string) (string, error) { panic(own) })
		}, testkit.Call, []error{core.ErrPanic}},
		{"storage", func(t *testing.T) *testkit.Definition { return testkit.Tool(t, "tool", steady, large) }, testkit.Call, []error{core.ErrStorage, core.ErrExhausted}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				_, ctx := testkit.Run(t, state.WithArtifacts(&shelf{failures: 9, err: own}))
				var err error
				out, outer := testkit.Call(ctx, testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
					_, err = tt.around(ctx, tt.d(t))
					return "out", nil
				}))
				testkit.Completed(t, out, outer)
				assert.ErrorIs(t, err, own)
				for _, target := range tt.want {
					assert.ErrorIs(t, err, target)
				}
				var f *fault
				var e *core.CallError
				if !errors.As(err, &f) || f != own {
					t.Errorf("%v does not wrap the fault", err)
				}
				if !errors.As(err, &e) {
					t.Fatalf("%v wraps no CallError", err)
				}
				assert.Equal(t, "agent/tool", e.Address.String(), "address")
				assert.Equal(t, "tool", e.Name, "name")
			})
		})
	}
}

func TestCallErrorContainsStageAndAttempts(t *testing.T) {
	for _, tt := range []struct {
		d        *testkit.Definition
		stage    record.Stage
		attempts int
		text     string
	}{
		{testkit.Tool(t, "tool", atOnce, testkit.Fail(errBoom)), record.StageHandler, 1, "tool: permanent (not retried, since its class is unknown: " +
			"mark the error with core.Retryable, or select it with RetryOn): boom"},
		{testkit.Tool(t, "tool", atOnce, testkit.Fail(errFlaky)), record.StageHandler, 3, "tool#2: exhausted after 3 attempts: dial tcp: connection refused"},
		{testkit.Tool(t, "tool", atOnce, testkit.Succeed).Require(func(context.Context, string) error { return errBoom }), record.StagePrecondition, 0, "tool#3: precondition: boom"},
		{testkit.Tool(t, "tool", atOnce, testkit.Succeed).Ensure(func(context.Context, string, string) error { return errBoom }), record.StagePostcondition, 3, "tool#4: exhausted after 3 attempts (postcondition): boom"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			_, err := testkit.Call(ctx, tt.d)
			var e *core.CallError
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			assert.Equal(t, tt.stage, e.Stage, "stage")
			assert.Equal(t, tt.attempts, e.Attempts, "attempts")
		})
	}
	_, ctx := testkit.Run(t)
	for _, tt := range []struct {
		d    *testkit.Definition
		text string
	}{
		{testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "plain"}, testkit.Fail(errBoom)), "plain: permanent: boom"},
		{testkit.Tool(t, "picky", core.RetryConfig{RetryOn: []core.Matcher{core.MatchIs(errFlaky)}}, testkit.Fail(errBoom)), "picky: permanent: boom"},
		{testkit.Tool(t, "single", core.RetryConfig{MaxAttempts: 1}, testkit.Fail(errBoom)), "single: permanent: boom"},
		{testkit.Tool(t, "tool", atOnce, testkit.Fail(errBoom)), "tool: permanent (not retried, since its class is unknown: " +
			"mark the error with core.Retryable, or select it with RetryOn): boom"},
		{testkit.Tool(t, "tool", atOnce, testkit.Fail(errFlaky)), "tool#2: exhausted after 3 attempts: dial tcp: connection refused"},
	} {
		_, err := testkit.Call(ctx, tt.d)
		assert.Equal(t, tt.text, err.Error(), "text")
	}
}

func TestMarksOfNilAreNil(t *testing.T) {
	if core.Permanent(nil) != nil || core.Retryable(nil) != nil {
		t.Error("a mark turned nil into an error")
	}
	assert.Equal(t, "boom", core.Permanent(core.Retryable(errBoom)).Error(), "text")
	assert.ErrorIs(t, core.Permanent(core.Retryable(errBoom)), errBoom)
}

func TestInterruptedErrorHoldsItsCause(t *testing.T) {
	err := &core.InterruptedError{Reason: record.InterruptContext, Cause: context.Canceled}
	assert.ErrorIs(t, err, core.ErrInterrupted)
	assert.ErrorIs(t, err, context.Canceled)
	assert.NotErrorIs(t, err, core.ErrContextCanceled)
	assert.Equal(t, "interrupted (context): context canceled", err.Error(), "text")
}

func TestErrorOfACallThatAwaitsSaysSoOnce(t *testing.T) {
	for want, cause := range map[string]error{
		"interrupted (awaiting a/pay?1): is it paid?":                           core.ErrAwaiting,
		"interrupted (awaiting a/pay?1): is it paid?: no connection":            fmt.Errorf("%w: no connection", core.ErrAwaiting),
		"interrupted (awaiting a/pay?1): is it paid?: again: 3 does not fit it": fmt.Errorf("%w again: 3 does not fit it", core.ErrAwaiting),
	} {
		e := &core.InterruptedError{Reason: record.InterruptAwait, Question: "a/pay?1", Message: "is it paid?", Cause: cause}
		require.EqualError(t, e, want)
		require.EqualError(t, e.Recorded(), want)
	}
}
