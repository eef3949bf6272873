package core_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

// A call outside any run follows the rules of one inside, and is not recorded.
func TestCallOutsideARunEndsAsOneInARun(t *testing.T) {
	listeningAfter := func(d time.Duration, err error) handler {
		return func(ctx context.Context, _ string) (string, error) { return "", errors.Join(pause(ctx, d), err) }
	}
	require := func(err error) func(*definition) *definition {
		return func(d *definition) *definition {
			return d.Require(func(context.Context, string) error { return err })
		}
	}
	ensure := func(err error) func(*definition) *definition {
		return func(d *definition) *definition {
			return d.Ensure(func(context.Context, string, string) error { return err })
		}
	}
	same := func(d *definition) *definition { return d }
	polling := steady
	polling.RetryWhen = func(a core.Attempt) bool { return a.Output == "pending" }
	for _, tt := range []struct {
		name string
		cfg  *core.RetryConfig // nil for the built-in
		kind core.Kind
		h    func() handler
		with func(*definition) *definition
	}{
		{"success", nil, core.KindTool, func() handler { return succeed }, same},
		{"built-in of tools", nil, core.KindTool, func() handler { return fail(errFlaky) }, same},
		{"built-in of LLMs", nil, core.KindLLM, func() handler { return fail(errFlaky) }, same},
		{"built-in of agents", nil, core.KindAgent, func() handler { return fail(errFlaky) }, same},
		{"success after failures", &steady, core.KindTool, func() handler { return failing(2, errFlaky) }, same},
		{"unknown error", &steady, core.KindTool, func() handler { return fail(errBoom) }, same},
		{"permanent error", &steady, core.KindTool, func() handler { return fail(core.Permanent(errFlaky)) }, same},
		{"panic", &steady, core.KindTool, func() handler { return func(context.Context, string) (string, error) { panic("oops") } }, same},
		{"precondition", &steady, core.KindTool, func() handler { return succeed }, require(errBoom)},
		{"precondition that holds", &steady, core.KindTool, func() handler { return failing(1, errFlaky) }, require(nil)},
		{"postcondition", &steady, core.KindTool, func() handler { return succeed }, ensure(errBoom)},
		{"postcondition that holds", &steady, core.KindTool, func() handler { return failing(1, errFlaky) }, ensure(nil)},
		{"attempt timeout", ptr(timed(2)), core.KindTool, func() handler { return listening(time.Hour) }, same},
		{"abandoned", ptr(timed(2)), core.KindTool, func() handler { return attempts(deaf(time.Hour), succeed) }, same},
		{"retry timeout", ptr(total(2500 * time.Millisecond)), core.KindTool, func() handler { return listeningAfter(time.Second, errFlaky) }, same},
		{"retry-after", &steady, core.KindTool, func() handler { return failing(1, core.WithRetryAfter(errFlaky, time.Minute)) }, same},
		{"retry-after too long", &steady, core.KindTool, func() handler { return fail(core.WithRetryAfter(errFlaky, time.Hour)) }, same},
		{"polling", &polling, core.KindTool, func() handler {
			return attempts(func(context.Context, string) (string, error) { return "pending", nil }, succeed)
		}, same},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				actor := func() *definition {
					return tt.with(define(t, core.Spec{Kind: tt.kind, Name: "tool", Retry: tt.cfg}, tt.h()))
				}
				_, ctx := run(t)
				elapsed := stopwatch()
				wantOut, wantErr := call(ctx, actor())
				wantTime := elapsed()
				elapsed = stopwatch()
				out, err := call(t.Context(), actor())
				gotTime := elapsed()
				equal(t, "output", out, wantOut)
				if tt.cfg != nil { // the built-in delays are jittered
					equal(t, "time", gotTime, wantTime)
				}
				if (err == nil) != (wantErr == nil) {
					t.Fatalf("got %v, in a run %v", err, wantErr)
				}
				if err == nil {
					return
				}
				equal(t, "text", err.Error(), wantErr.Error())
				var want *core.CallError
				errors.As(wantErr, &want)
				got := failed(t, err, want.Reason)
				equal(t, "stage", got.Stage, want.Stage)
				equal(t, "attempts", got.Attempts, want.Attempts)
				equal(t, "address", got.Address.IsZero(), true)
			})
		})
	}
}

func ptr[T any](v T) *T { return &v }

func TestCancellationOutsideARunInterrupts(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg   core.RetryConfig
		h     handler
		after time.Duration
	}{
		"before the call":             {steady, succeed, 0},
		"in the handler":              {steady, listening(time.Hour), time.Second},
		"in a handler with a timeout": {core.RetryConfig{AttemptTimeout: time.Minute}, listening(time.Hour), time.Second},
		"in a wait":                   {core.RetryConfig{InitialDelay: 30 * time.Second}, fail(errFlaky), time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				if tt.after == 0 {
					cancel(errBoom)
				}
				time.AfterFunc(tt.after, func() { cancel(errBoom) })
				elapsed := stopwatch()
				_, err := call(ctx, tool(t, tt.cfg, tt.h))
				interrupted(t, err, core.InterruptContext)
				is(t, err, errBoom)
				equal(t, "time", elapsed(), tt.after)
			})
		})
	}
}

func TestDeadlineOutsideARunIsTheCallsOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		elapsed := stopwatch()
		_, err := within(10*time.Second)(t.Context(), tool(t, patient(3), fail(errFlaky)))
		failed(t, err, core.ReasonDeadline)
		is(t, err, core.ErrDeadline, errFlaky)
		equal(t, "time", elapsed(), 0)

		_, err = within(10*time.Second)(t.Context(), tool(t, steady, listening(time.Hour)))
		failed(t, err, core.ReasonDeadline)
		equal(t, "time", elapsed(), 10*time.Second)
	})
}

func TestNestedCallsOutsideARun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		out, err := call(t.Context(), nested(t, timed(2), steady, attempts(listening(time.Hour), succeed), call))
		completed(t, out, err)
	})
}

func TestHelpersOutsideARunDoNothing(t *testing.T) {
	out, err := call(t.Context(), tool(t, steady, func(ctx context.Context, _ string) (string, error) {
		core.AddUsage(ctx, core.Usage{InputTokens: 1})
		if core.ScopeOf(ctx) != nil || state.From(ctx) != nil {
			t.Error("there is a run")
		}
		st := state.From(ctx)
		st.Log(slog.LevelInfo, "nobody hears it", nil)
		equal(t, "interrupt", st.Interrupt(core.InterruptUser, "", ""), false)
		equal(t, "id", st.RunID(), "")
		is(t, st.SetTimeout(time.Second), core.ErrNoRun)
		is(t, state.Put(ctx, "key", 1), core.ErrNoRun)
		_, _, err := state.Get[int](ctx, "key")
		is(t, err, core.ErrNoRun)
		out, err := group(ctx, "all", calling(tool(t, steady, succeed)))
		return out[0], err
	}))
	completed(t, out, err)
	if a := tool(t, steady, succeed).Event().Prepare(t.Context(), "in").Address(); !a.IsZero() {
		t.Errorf("address %v outside a run", a)
	}
}

func TestGroupOutsideARunCancelsItsBranches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		elapsed := stopwatch()
		_, err := actors.Parallel(t.Context(), actors.Group{Name: "all"},
			func(ctx context.Context) (string, error) { return "", errors.Join(pause(ctx, time.Second), errBoom) },
			func(ctx context.Context) (string, error) {
				_, err := call(ctx, tool(t, steady, listening(time.Hour)))
				interrupted(t, err, core.InterruptGroup)
				is(t, err, errBoom)
				return "", err
			})
		failed(t, err, core.ReasonPermanent)
		is(t, err, errBoom)
		equal(t, "time", elapsed(), time.Second)
	})
}

// Calls of an actor wait together where their contexts end together, and only
// there: a bubble and the world around it have clocks of their own.
func TestCallsOfABubbleDoNotWaitWithOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(*testing.T) context.Context
	}{
		{"contexts that never end", func(t *testing.T) context.Context { return context.WithoutCancel(t.Context()) }},
		{"contexts that may end", func(t *testing.T) context.Context { return t.Context() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			begun := make(chan struct{}, 4)
			brief := core.RetryConfig{MaxAttempts: 2, InitialDelay: 50 * time.Millisecond, Jitter: core.NoJitter}
			d := tool(t, brief, func(context.Context, string) (string, error) {
				begun <- struct{}{}
				return "", errFlaky
			})
			var outside sync.WaitGroup
			outside.Go(func() {
				_, err := call(tt.make(t), d)
				failed(t, err, core.ReasonExhausted)
			})
			<-begun
			synctest.Test(t, func(t *testing.T) {
				elapsed := stopwatch()
				_, err := call(tt.make(t), d)
				failed(t, err, core.ReasonExhausted)
				equal(t, "time", elapsed(), brief.InitialDelay)
			})
			outside.Wait()
		})
	}
}

func TestCancelWakesAllCallsOutsideARun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		d := tool(t, steady, fail(core.WithRetryAfter(errFlaky, time.Minute)))
		elapsed := stopwatch()
		var calls sync.WaitGroup
		for range 50 {
			calls.Go(func() {
				_, err := call(ctx, d)
				is(t, err, errBoom)
				interrupted(t, err, core.InterruptContext)
			})
		}
		<-time.After(time.Second)
		cancel(errBoom)
		calls.Wait()
		equal(t, "time", elapsed(), time.Second)
	})
}
