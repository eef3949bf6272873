package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

var sentinels = map[core.Reason]error{
	core.ReasonPermanent: core.ErrPermanent, core.ReasonExhausted: core.ErrExhausted, core.ReasonRetryTimeout: core.ErrRetryTimeout,
	core.ReasonDeadline: core.ErrDeadline, core.ReasonCanceled: core.ErrCanceled, core.ReasonRetryAfterTooLong: core.ErrRetryAfterTooLong,
	core.ReasonCondition: core.ErrCondition, core.ReasonPrecondition: core.ErrPrecondition, core.ReasonPanic: core.ErrPanic,
	core.ReasonBudget: core.ErrBudget, core.ReasonInDoubt: core.ErrInDoubt, core.ReasonDivergence: core.ErrDivergence, core.ReasonStorage: core.ErrStorage,
}

func TestEveryReasonIsItsOwnSentinelAndNoOther(t *testing.T) {
	names := make(map[string]bool)
	for reason, sentinel := range sentinels {
		err := fmt.Errorf("wrapped: %w", &core.CallError{Name: "tool", Reason: reason, Err: errBoom})
		is(t, err, sentinel, errBoom)
		for other, sentinel := range sentinels {
			if other != reason {
				isNot(t, err, sentinel)
			}
		}
		if name := reason.String(); name == "" || names[name] {
			t.Errorf("reason %d is called %q", reason, name)
		} else {
			names[name] = true
		}
	}
	equal(t, "reasons", len(sentinels), int(core.ReasonStorage))
}

func TestReasonsOnTheWire(t *testing.T) {
	want := "permanent exhausted retry_timeout deadline canceled retry_after_too_long condition precondition panic budget in_doubt divergence storage"
	got := ""
	for r := core.ReasonPermanent; r <= core.ReasonStorage; r++ {
		if r > core.ReasonPermanent {
			got += " "
		}
		got += r.String()
	}
	equal(t, "names", got, want)
}

// fault is an error of the user's that has a type.
type fault struct{ code int }

func (e *fault) Error() string { return fmt.Sprintf("fault %d", e.code) }

// Whatever ends a call, the caller finds the own error by value and by type.
func TestCallersFindTheirOwnErrorOnEveryPath(t *testing.T) {
	own := &fault{7}
	flaky := core.Retryable(own)
	soon := func(ctx context.Context, d *definition) (string, error) { return within(time.Minute)(ctx, d) }
	after := func(err error) handler {
		return func(ctx context.Context, _ string) (string, error) { <-ctx.Done(); return "", err }
	}
	later := core.RetryConfig{Jitter: core.NoJitter, InitialDelay: time.Hour, MaxDelay: time.Hour}
	for _, tt := range []struct {
		name   string
		d      func(t *testing.T) *definition
		around func(context.Context, *definition) (string, error)
		want   []error
	}{
		{"permanent", func(t *testing.T) *definition { return tool(t, steady, fail(own)) }, call, []error{core.ErrPermanent}},
		{"marked permanent", func(t *testing.T) *definition { return tool(t, steady, fail(core.Permanent(own))) }, call, []error{core.ErrPermanent}},
		{"exhausted", func(t *testing.T) *definition { return tool(t, steady, fail(flaky)) }, call, []error{core.ErrExhausted}},
		{"disabled", func(t *testing.T) *definition { return tool(t, once, fail(flaky)) }, call, []error{core.ErrExhausted}},
		{"retry timeout before a wait", func(t *testing.T) *definition { return tool(t, total(time.Second), fail(flaky)) }, call, []error{core.ErrRetryTimeout, context.DeadlineExceeded}},
		{"retry timeout in an attempt", func(t *testing.T) *definition { return tool(t, total(time.Second), after(own)) }, call, []error{core.ErrRetryTimeout, context.DeadlineExceeded}},
		{"attempt timeout", func(t *testing.T) *definition { return tool(t, timed(2), after(own)) }, call, []error{core.ErrExhausted, context.DeadlineExceeded}},
		{"deadline before a wait", func(t *testing.T) *definition { return tool(t, later, fail(flaky)) }, soon, []error{core.ErrDeadline, context.DeadlineExceeded}},
		{"deadline in an attempt", func(t *testing.T) *definition { return tool(t, steady, after(own)) }, soon, []error{core.ErrDeadline, context.DeadlineExceeded}},
		{"cancelled in a wait", func(t *testing.T) *definition { return tool(t, later, fail(flaky)) }, func(ctx context.Context, d *definition) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return call(ctx, d)
		}, []error{core.ErrCanceled, context.Canceled}},
		{"cancelled in an attempt", func(t *testing.T) *definition { return tool(t, steady, after(own)) }, func(ctx context.Context, d *definition) (string, error) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return call(ctx, d)
		}, []error{core.ErrCanceled, context.Canceled}},
		{"retry-after too long", func(t *testing.T) *definition { return tool(t, steady, fail(core.WithRetryAfter(flaky, time.Hour))) }, call, []error{core.ErrRetryAfterTooLong}},
		{"precondition", func(t *testing.T) *definition {
			return tool(t, steady, succeed).Require(func(context.Context, string) error { return own })
		}, call, []error{core.ErrPrecondition}},
		{"postcondition", func(t *testing.T) *definition {
			return tool(t, steady, succeed).Ensure(func(context.Context, string, string) error { return own })
		}, call, []error{core.ErrCondition, core.ErrExhausted}},
		{"panic", func(t *testing.T) *definition {
			return tool(t, steady, func(context.Context, string) (string, error) { panic(own) })
		}, call, []error{core.ErrPanic}},
		{"storage", func(t *testing.T) *definition { return tool(t, steady, large) }, call, []error{core.ErrStorage, core.ErrExhausted}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				_, ctx := run(t, state.WithArtifacts(&shelf{failures: 9, err: own}))
				var err error
				out, outer := call(ctx, agent(t, once, func(ctx context.Context, _ string) (string, error) {
					_, err = tt.around(ctx, tt.d(t))
					return "out", nil
				}))
				completed(t, out, outer)
				is(t, err, own)
				is(t, err, tt.want...)
				var f *fault
				var e *core.CallError
				if !errors.As(err, &f) || f != own {
					t.Errorf("%v does not hold the fault", err)
				}
				if !errors.As(err, &e) {
					t.Fatalf("%v holds no CallError", err)
				}
				equal(t, "address", e.Address.String(), "agent/tool")
				equal(t, "name", e.Name, "tool")
			})
		})
	}
}

func TestCallErrorTellsStageAndAttempts(t *testing.T) {
	for _, tt := range []struct {
		d        *definition
		stage    core.Stage
		attempts int
		text     string
	}{
		{tool(t, atOnce, fail(errBoom)), core.StageHandler, 1, "tool: permanent: boom"},
		{tool(t, atOnce, fail(errFlaky)), core.StageHandler, 3, "tool#2: exhausted after 3 attempts: dial tcp: connection refused"},
		{tool(t, atOnce, succeed).Require(func(context.Context, string) error { return errBoom }), core.StagePrecondition, 0, "tool#3: precondition: boom"},
		{tool(t, atOnce, succeed).Ensure(func(context.Context, string, string) error { return errBoom }), core.StagePostcondition, 3, "tool#4: exhausted after 3 attempts (postcondition): boom"},
	} {
		t.Run(tt.text, func(t *testing.T) {
			_, ctx := run(t)
			_, err := call(ctx, tt.d)
			var e *core.CallError
			if !errors.As(err, &e) {
				t.Fatal(err)
			}
			equal(t, "stage", e.Stage, tt.stage)
			equal(t, "attempts", e.Attempts, tt.attempts)
		})
	}
	_, ctx := run(t)
	for _, tt := range []struct {
		d    *definition
		text string
	}{
		{tool(t, atOnce, fail(errBoom)), "tool: permanent: boom"},
		{tool(t, atOnce, fail(errFlaky)), "tool#2: exhausted after 3 attempts: dial tcp: connection refused"},
	} {
		_, err := call(ctx, tt.d)
		equal(t, "text", err.Error(), tt.text)
	}
}

func TestMarksOfNilAreNil(t *testing.T) {
	if core.Permanent(nil) != nil || core.Retryable(nil) != nil {
		t.Error("a mark made an error of nil")
	}
	equal(t, "text", core.Permanent(core.Retryable(errBoom)).Error(), "boom")
	is(t, core.Permanent(core.Retryable(errBoom)), errBoom)
}

func TestInterruptedErrorHoldsItsCause(t *testing.T) {
	err := &core.InterruptedError{Reason: core.InterruptContext, Cause: context.Canceled}
	is(t, err, core.ErrInterrupted, context.Canceled)
	isNot(t, err, core.ErrCanceled)
	equal(t, "text", err.Error(), "interrupted (context): context canceled")
}
