package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

func TestRecordsOfACallAreInOrder(t *testing.T) {
	for _, tt := range []struct {
		name    string
		retry   core.RetryConfig
		handler handler
		want    string
		reason  core.Reason // none if it completes
	}{
		{
			"first-time success", steady, succeed,
			"started(0) completed(0)", core.ReasonNone,
		},
		{
			"success after two failures", steady, failing(2, errFlaky),
			"started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,retry,connection) retrying(2,2s) started(2) completed(2)", core.ReasonNone,
		},
		{
			"exhaustion", steady, fail(errFlaky),
			"started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,retry,connection) retrying(2,2s) started(2) failed(2,exhausted,connection)", core.ReasonExhausted,
		},
		{
			"one attempt", once, fail(errFlaky),
			"started(0) failed(0,exhausted,connection)", core.ReasonExhausted,
		},
		{
			"unknown error", steady, fail(errBoom),
			"started(0) failed(0,permanent,unknown)", core.ReasonPermanent,
		},
		{
			"permanent error", steady, fail(core.Permanent(errFlaky)),
			"started(0) failed(0,permanent,permanent)", core.ReasonPermanent,
		},
		{
			"permanent error after a transient one", steady, attempts(fail(errFlaky), fail(core.Permanent(errBoom))),
			"started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,permanent,permanent)", core.ReasonPermanent,
		},
		{
			"panic", steady, func(context.Context, string) (string, error) { panic("oops") },
			"started(0) failed(0,panic,panic)", core.ReasonPanic,
		},
		{
			"no delay", atOnce, failing(1, errFlaky),
			"started(0) failed(0,retry,connection) retrying(1,0s) started(1) completed(1)", core.ReasonNone,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				out, err := call(ctx, tool(t, tt.retry, tt.handler))
				told(t, st, tt.want)
				if tt.reason == core.ReasonNone {
					completed(t, out, err)
				} else {
					failed(t, err, tt.reason)
					equal(t, "output", out, "")
				}
			})
		})
	}
}

func TestRecordsOfAFailureWithAndWithoutATimeoutAreTheSame(t *testing.T) {
	bubble(t, func(t *testing.T) {
		limited := steady
		limited.AttemptTimeout, limited.RetryTimeout = time.Minute, time.Hour
		for _, h := range []func() handler{
			func() handler { return succeed },
			func() handler { return failing(2, errFlaky) },
			func() handler { return fail(errBoom) },
			func() handler { return fail(errFlaky) },
			func() handler { return func(context.Context, string) (string, error) { panic("oops") } },
		} {
			plain, ctx := run(t)
			_, errPlain := call(ctx, tool(t, steady, h()))
			timed, ctx := run(t)
			_, errTimed := call(ctx, tool(t, limited, h()))
			told(t, timed, story(plain))
			equal(t, "error", fmt.Sprint(errTimed), fmt.Sprint(errPlain))
		}
	})
}

func TestPreconditionFailureIsNotRetried(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		asked, ran := 0, 0
		d := tool(t, core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}}, counted(&ran, succeed)).
			Require(func(context.Context, string) error { asked++; return errFlaky })
		_, err := call(ctx, d)
		told(t, st, "failed(0,precondition,invalid,@precondition)")
		e := failed(t, err, core.ReasonPrecondition)
		is(t, err, core.ErrPrecondition, errFlaky)
		equal(t, "attempts", e.Attempts, 0)
		equal(t, "stage", e.Stage, core.StagePrecondition)
		equal(t, "asked", asked, 1)
		equal(t, "handler ran", ran, 0)
	})
}

func TestPreconditionsRunOncePerCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		var order []string
		d := tool(t, steady, failing(2, errFlaky)).
			Require(func(context.Context, string) error { order = append(order, "first"); return nil }).
			Require(func(context.Context, string) error { order = append(order, "second"); return nil })
		out, err := call(ctx, d)
		completed(t, out, err)
		equal(t, "asked", strings.Join(order, " "), "first second")
	})
}

func TestFirstFailedPreconditionEndsTheCall(t *testing.T) {
	_, ctx := run(t)
	asked := 0
	d := tool(t, steady, succeed).
		Require(func(context.Context, string) error { return errBoom }).
		Require(func(context.Context, string) error { asked++; return nil })
	_, err := call(ctx, d)
	is(t, err, errBoom)
	equal(t, "second asked", asked, 0)
}

func TestPostconditionFailureRunsTheHandlerAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		ran, asked := 0, 0
		d := tool(t, steady, counted(&ran, succeed)).
			Ensure(func(_ context.Context, in, out string) error {
				equal(t, "input", in, "in")
				equal(t, "output", out, "out")
				if asked++; asked == 1 {
					return errBoom
				}
				return nil
			})
		out, err := call(ctx, d)
		completed(t, out, err)
		told(t, st, "started(0) failed(0,retry,condition,@postcondition) retrying(1,1s) started(1) completed(1)")
		equal(t, "handler ran", ran, 2)
		equal(t, "asked", asked, 2)
	})
}

func TestPostconditionIsNotAskedAboutAFailure(t *testing.T) {
	_, ctx := run(t)
	asked := 0
	_, err := call(ctx, tool(t, steady, fail(errBoom)).Ensure(func(context.Context, string, string) error { asked++; return nil }))
	failed(t, err, core.ReasonPermanent)
	equal(t, "asked", asked, 0)
}

func TestPostconditionThatNeverHoldsFailsTheCall(t *testing.T) {
	for _, tt := range []struct {
		name   string
		retry  core.RetryConfig
		err    error
		want   string
		reason core.Reason
	}{
		{"attempts used up", twice, errBoom, "started(0) failed(0,retry,condition,@postcondition) retrying(1,1s) started(1) failed(1,exhausted,condition,@postcondition)", core.ReasonExhausted},
		{"no retry", once, errBoom, "started(0) failed(0,condition,condition,@postcondition)", core.ReasonCondition},
		{"permanent", twice, core.Permanent(errBoom), "started(0) failed(0,condition,permanent,@postcondition)", core.ReasonCondition},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t)
				_, err := call(ctx, tool(t, tt.retry, succeed).Ensure(func(context.Context, string, string) error { return tt.err }))
				told(t, st, tt.want)
				failed(t, err, tt.reason)
				is(t, err, core.ErrCondition, errBoom)
			})
		})
	}
}

// shelf stores artifacts, after it failed the given number of times.
type shelf struct {
	failures int
	err      error
	kept     [][]byte
}

func (s *shelf) Put(_ context.Context, encoded []byte) (string, error) {
	if s.failures > 0 {
		s.failures--
		return "", s.err
	}
	s.kept = append(s.kept, encoded)
	return fmt.Sprintf("artifact-%d", len(s.kept)), nil
}

func large(context.Context, string) (string, error) {
	return strings.Repeat("x", inline+1), nil
}

func TestArtifactFailureRunsTheHandlerAgain(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &shelf{failures: 1, err: errBoom}
		st, ctx := run(t, state.WithArtifacts(s))
		ran := 0
		out, err := call(ctx, tool(t, steady, counted(&ran, large)))
		if err != nil || len(out) != inline+1 {
			t.Fatal(len(out), err)
		}
		told(t, st, "started(0) failed(0,retry,artifact,@artifact) retrying(1,1s) started(1) completed(1)")
		equal(t, "handler ran", ran, 2)
		equal(t, "kept", len(s.kept), 1)
		last := calls(st)[4]
		equal(t, "reference", last.Detail.Artifact, "artifact-1")
		equal(t, "inline output", len(last.Detail.Output), 0)
		var back string
		if err := core.Decode(s.kept[0], &back); err != nil || back != out {
			t.Errorf("the artifact is not the output: %v", err)
		}
	})
}

func TestArtifactThatCannotBeStoredFailsTheCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t, state.WithArtifacts(&shelf{failures: 9, err: errBoom}))
		_, err := call(ctx, tool(t, once, large))
		told(t, st, "started(0) failed(0,storage,artifact,@artifact)")
		failed(t, err, core.ReasonStorage)
		is(t, err, core.ErrStorage, errBoom)

		st, ctx = run(t, state.WithArtifacts(&shelf{failures: 9, err: errBoom}))
		_, err = call(ctx, tool(t, twice, large))
		told(t, st, "started(0) failed(0,retry,artifact,@artifact) retrying(1,1s) started(1) failed(1,exhausted,artifact,@artifact)")
		failed(t, err, core.ReasonExhausted)
		is(t, err, core.ErrStorage, errBoom)
	})
}

func TestSmallOutputIsNoArtifact(t *testing.T) {
	s := new(shelf)
	_, ctx := run(t, state.WithArtifacts(s))
	out, err := call(ctx, tool(t, steady, succeed))
	completed(t, out, err)
	equal(t, "kept", len(s.kept), 0)
}

type panickingShelf struct{}

func (panickingShelf) Put(context.Context, []byte) (string, error) { panic(errBoom) }

func TestPanicsBecomeErrorsWithTheirStack(t *testing.T) {
	every := core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}}
	when := core.RetryConfig{RetryWhen: func(core.Attempt) bool { panic(errBoom) }}
	stop := core.RetryConfig{StopWhen: func(core.Attempt) bool { panic(errBoom) }}
	matcher := core.RetryConfig{Exclude: []core.Matcher{func(error) bool { panic(errBoom) }}}
	timed := every
	timed.AttemptTimeout = time.Minute
	panicking := func(context.Context, string) (string, error) { panic(errBoom) }
	for _, tt := range []struct {
		name string
		d    *definition
		want string
	}{
		{"handler", tool(t, every, panicking), "started(0) failed(0,panic,panic)"},
		{"handler with a timeout", tool(t, timed, panicking), "started(0) failed(0,panic,panic)"},
		{"precondition", tool(t, every, succeed).Require(func(context.Context, string) error { panic(errBoom) }), "failed(0,panic,panic,@precondition)"},
		{"postcondition", tool(t, every, succeed).Ensure(func(context.Context, string, string) error { panic(errBoom) }), "started(0) failed(0,panic,panic,@postcondition)"},
		{"RetryWhen about a failure", tool(t, when, fail(errFlaky)), "started(0) failed(0,panic,panic)"},
		{"RetryWhen about a success", tool(t, when, succeed), "started(0) failed(0,panic,panic)"},
		{"StopWhen", tool(t, stop, fail(errFlaky)), "started(0) failed(0,panic,panic)"},
		{"Matcher", tool(t, matcher, fail(errFlaky)), "started(0) failed(0,panic,panic)"},
		{"artifact storage", tool(t, every, large), "started(0) failed(0,panic,panic,@artifact)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				st, ctx := run(t, state.WithArtifacts(panickingShelf{}))
				_, err := call(ctx, tt.d)
				told(t, st, tt.want)
				failed(t, err, core.ReasonPanic)
				is(t, err, core.ErrPanic)
				var p *core.PanicError
				if !errors.As(err, &p) {
					t.Fatalf("no *core.PanicError in %v", err)
				}
				if !strings.Contains(string(p.Stack), "records_test.go") {
					t.Errorf("the stack does not lead to the panic:\n%s", p.Stack)
				}
				if !strings.Contains(err.Error(), "boom") {
					t.Errorf("%q does not tell the value", err)
				}
			})
		})
	}
}

func TestPanicWithAnErrorIsThatError(t *testing.T) {
	_, ctx := run(t)
	_, err := call(ctx, tool(t, steady, func(context.Context, string) (string, error) { panic(errBoom) }))
	is(t, err, core.ErrPanic, errBoom)
}

func TestPanicWhileJudgingKeepsTheJudgedError(t *testing.T) {
	_, ctx := run(t)
	_, err := call(ctx, tool(t, core.RetryConfig{RetryWhen: func(core.Attempt) bool { panic("oops") }}, fail(errBoom)))
	is(t, err, core.ErrPanic, errBoom)
}

func TestRetryWhenMakesAnotherAttemptOfASuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		n := 0
		poll := func(context.Context, string) (string, error) {
			n++
			return []string{"pending", "pending", "out"}[n-1], nil
		}
		cfg := steady
		cfg.RetryWhen = func(a core.Attempt) bool {
			equal(t, "number", a.Number, n)
			return a.Output == "pending"
		}
		out, err := call(ctx, tool(t, cfg, poll))
		completed(t, out, err)
		told(t, st, "started(0) failed(0,retry,unknown) retrying(1,1s) started(1) failed(1,retry,unknown) retrying(2,2s) started(2) completed(2)")
	})
}

func TestPollingThatNeverEndsIsExhausted(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		cfg := twice
		cfg.RetryWhen = func(core.Attempt) bool { return true }
		_, err := call(ctx, tool(t, cfg, succeed))
		failed(t, err, core.ReasonExhausted)
		told(t, st, "started(0) failed(0,retry,unknown) retrying(1,1s) started(1) failed(1,exhausted,unknown)")
	})
}

func TestStopWhenEndsPolling(t *testing.T) {
	cfg := atOnce
	cfg.RetryWhen = func(core.Attempt) bool { return true }
	cfg.StopWhen = func(core.Attempt) bool { return true }
	_, ctx := run(t)
	out, err := call(ctx, tool(t, cfg, succeed))
	completed(t, out, err)
}

func TestSuccessThatRetryWhenRefusesIsNoFailedPostcondition(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		cfg := core.RetryConfig{MaxAttempts: 1, RetryWhen: func(core.Attempt) bool { return true }}
		d := tool(t, cfg, succeed).Ensure(func(context.Context, string, string) error { return nil })
		_, err := call(ctx, d)
		told(t, st, "started(0) failed(0,exhausted,unknown)")
		isNot(t, err, core.ErrCondition)
	})
}

func TestRecordsTellAttemptsDelaysAndTimes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t, state.WithRunID("run-7"))
		start := time.Now().UTC().Round(0)
		d := tool(t, steady, attempts(
			func(ctx context.Context, _ string) (string, error) {
				return "", errors.Join(pause(ctx, 3*time.Second), errFlaky)
			},
			listening(4*time.Second),
		))
		out, err := call(ctx, d)
		completed(t, out, err)
		records := calls(st)
		if len(records) != 5 {
			t.Fatal(story(st))
		}
		second := time.Second
		for i, want := range []core.Record{
			{Time: start, Status: core.StatusStarted},
			{Time: start.Add(3 * second), Status: core.StatusFailed, WillRetry: true, Duration: 3 * second, Elapsed: 3 * second, Delay: second},
			{Time: start.Add(3 * second), Status: core.StatusRetrying, Attempt: 1, Elapsed: 3 * second, Delay: second},
			{Time: start.Add(4 * second), Status: core.StatusStarted, Attempt: 1, Elapsed: 4 * second},
			{Time: start.Add(8 * second), Status: core.StatusCompleted, Attempt: 1, Duration: 4 * second, Elapsed: 8 * second},
		} {
			got := records[i]
			equal(t, "run", got.RunID, "run-7")
			equal(t, "seq", got.Seq, uint64(i+2)) // 1 begins the run
			equal(t, "time", got.Time, want.Time)
			equal(t, "name", got.Name, "tool")
			equal(t, "kind", got.Kind, core.KindTool)
			equal(t, "address", got.Address.String(), "tool")
			equal(t, "status", got.Status, want.Status)
			equal(t, "attempt", got.Attempt, want.Attempt)
			equal(t, "is retry", got.IsRetry(), want.Attempt > 0)
			equal(t, "max attempts", got.MaxAttempts, 3)
			equal(t, "will retry", got.WillRetry, want.WillRetry)
			equal(t, "duration", got.Duration, want.Duration)
			equal(t, "elapsed", got.Elapsed, want.Elapsed)
			equal(t, "delay", got.Delay, want.Delay)
			if want.Delay > 0 {
				equal(t, "next attempt", got.NextAttemptAt(), start.Add(4*second))
				is(t, got.Err, errFlaky)
			} else {
				equal(t, "next attempt", got.NextAttemptAt(), time.Time{})
			}
			equal(t, "outcome", got.IsOutcome(), i == 4)
			equal(t, "suspension", got.IsSuspension(), false)
		}
		equal(t, "total attempts", records[4].TotalAttempts(), 2)
	})
}

func TestUsageIsInTheRecordThatEndsTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		st, ctx := run(t)
		n := 0
		d := tool(t, steady, func(ctx context.Context, _ string) (string, error) {
			n++
			core.AddUsage(ctx, core.Usage{InputTokens: n, Cost: 0.5})
			core.AddUsage(ctx, core.Usage{OutputTokens: 10 * n})
			if n == 1 {
				return "", errFlaky
			}
			return "out", nil
		})
		out, err := call(ctx, d)
		completed(t, out, err)
		records := calls(st)
		equal(t, "of the failure", records[1].Detail.Usage, core.Usage{InputTokens: 1, OutputTokens: 10, Cost: 0.5})
		equal(t, "of the success", records[4].Detail.Usage, core.Usage{InputTokens: 2, OutputTokens: 20, Cost: 0.5})
	})
}

func TestPayloadsAreInputAndOutput(t *testing.T) {
	st, ctx := run(t, state.WithPayloads())
	out, err := call(ctx, tool(t, steady, succeed))
	completed(t, out, err)
	records := calls(st)
	var got string
	if err := core.Decode(records[0].Detail.Input, &got); err != nil || got != "in" {
		t.Errorf("input %q, %v", got, err)
	}
	if err := core.Decode(records[1].Detail.Output, &got); err != nil || got != "out" {
		t.Errorf("output %q, %v", got, err)
	}
	want, _ := core.HashOf("in")
	equal(t, "hash", records[0].Detail.InputHash, want)
}

func TestValueWithoutEncodingIsNotRetried(t *testing.T) {
	every := core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}}
	st, ctx := run(t, state.WithPayloads())
	d := define(t, core.Spec{Kind: core.KindTool, Name: "tool", Retry: &every}, func(context.Context, string) (any, error) { return func() {}, nil })
	_, err := d.Event().Execute(ctx, "in")
	told(t, st, "started(0) failed(0,permanent,invalid,@encode)")
	failed(t, err, core.ReasonPermanent)

	st, ctx = run(t, state.WithPayloads())
	ran := 0
	e := define(t, core.Spec{Kind: core.KindTool, Name: "tool", Retry: &every}, func(context.Context, func()) (string, error) { ran++; return "", nil })
	_, err = e.Event().Execute(ctx, func() {})
	told(t, st, "failed(0,permanent,invalid,@entry)")
	failed(t, err, core.ReasonPermanent)
	equal(t, "handler ran", ran, 0)
}
