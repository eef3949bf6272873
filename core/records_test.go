package core_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestRecordsOfACallAreInOrder(t *testing.T) {
	for _, tt := range []struct {
		name    string
		retry   core.RetryConfig
		handler testkit.Handler
		want    string
		reason  record.Reason // ReasonNone if the call completes
	}{
		{
			"first-time success", steady, testkit.Succeed,
			"started(0) completed(0)", record.ReasonNone,
		},
		{
			"success after two failures", steady, testkit.Failing(2, errFlaky),
			"started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,retry,connection) retrying(2,2s) started(2) completed(2)", record.ReasonNone,
		},
		{
			"exhaustion", steady, testkit.Fail(errFlaky),
			"started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,retry,connection) retrying(2,2s) started(2) failed(2,exhausted,connection)", record.ReasonExhausted,
		},
		{
			"one attempt", once, testkit.Fail(errFlaky),
			"started(0) failed(0,exhausted,connection)", record.ReasonExhausted,
		},
		{
			"unknown error", steady, testkit.Fail(errBoom),
			"started(0) failed(0,permanent,unknown)", record.ReasonPermanent,
		},
		{
			"permanent error", steady, testkit.Fail(core.Permanent(errFlaky)),
			"started(0) failed(0,permanent,permanent)", record.ReasonPermanent,
		},
		{
			"permanent error after a transient one", steady, testkit.Attempts(testkit.Fail(errFlaky), testkit.Fail(core.Permanent(errBoom))),
			"started(0) failed(0,retry,connection) retrying(1,1s) started(1) failed(1,permanent,permanent)", record.ReasonPermanent,
		},
		{
			"panic", steady, func(context.Context, string) (string, error) { panic("oops") },
			"started(0) failed(0,panic,panic)", record.ReasonPanic,
		},
		{
			"no delay", atOnce, testkit.Failing(1, errFlaky),
			"started(0) failed(0,retry,connection) retrying(1,0s) started(1) completed(1)", record.ReasonNone,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				out, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.retry, tt.handler))
				wantRecords(t, st, tt.want)
				if tt.reason == record.ReasonNone {
					testkit.Completed(t, out, err)
				} else {
					testkit.Failed(t, err, tt.reason)
					assert.Empty(t, out, "output")
				}
			})
		})
	}
}

func TestRecordsOfAFailureWithAndWithoutATimeoutAreTheSame(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		limited := steady
		limited.AttemptTimeout, limited.RetryTimeout = time.Minute, time.Hour
		for _, h := range []func() testkit.Handler{
			func() testkit.Handler { return testkit.Succeed },
			func() testkit.Handler { return testkit.Failing(2, errFlaky) },
			func() testkit.Handler { return testkit.Fail(errBoom) },
			func() testkit.Handler { return testkit.Fail(errFlaky) },
			func() testkit.Handler { return func(context.Context, string) (string, error) { panic("oops") } },
		} {
			plain, ctx := testkit.Run(t)
			_, errPlain := testkit.Call(ctx, testkit.Tool(t, "tool", steady, h()))
			timed, ctx := testkit.Run(t)
			_, errTimed := testkit.Call(ctx, testkit.Tool(t, "tool", limited, h()))
			wantRecords(t, timed, story(t, plain))
			assert.Equal(t, fmt.Sprint(errPlain), fmt.Sprint(errTimed), "error")
		}
	})
}

func TestPreconditionFailureIsNotRetried(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		asked, ran := 0, 0
		d := testkit.Tool(t, "tool", core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}}, testkit.Counted(&ran, testkit.Succeed)).
			Require(func(context.Context, string) error { asked++; return errFlaky })
		_, err := testkit.Call(ctx, d)
		wantRecords(t, st, "failed(0,precondition,invalid,@precondition)")
		e := testkit.Failed(t, err, record.ReasonPrecondition)
		assert.ErrorIs(t, err, core.ErrPrecondition)
		assert.ErrorIs(t, err, errFlaky)
		assert.Equal(t, 0, e.Attempts, "attempts")
		assert.Equal(t, record.StagePrecondition, e.Stage, "stage")
		assert.Equal(t, 1, asked, "asked")
		assert.Equal(t, 0, ran, "handler ran")
	})
}

func TestPreconditionsRunOncePerCall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		var order []string
		d := testkit.Tool(t, "tool", steady, testkit.Failing(2, errFlaky)).
			Require(func(context.Context, string) error { order = append(order, "first"); return nil }).
			Require(func(context.Context, string) error { order = append(order, "second"); return nil })
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		assert.Equal(t, "first second", strings.Join(order, " "), "asked")
	})
}

func TestFirstFailedPreconditionEndsTheCall(t *testing.T) {
	_, ctx := testkit.Run(t)
	asked := 0
	d := testkit.Tool(t, "tool", steady, testkit.Succeed).
		Require(func(context.Context, string) error { return errBoom }).
		Require(func(context.Context, string) error { asked++; return nil })
	_, err := testkit.Call(ctx, d)
	assert.ErrorIs(t, err, errBoom)
	assert.Equal(t, 0, asked, "second asked")
}

func TestPostconditionFailureRunsTheHandlerAgain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		ran, asked := 0, 0
		d := testkit.Tool(t, "tool", steady, testkit.Counted(&ran, testkit.Succeed)).
			Ensure(func(_ context.Context, in, out string) error {
				assert.Equal(t, "in", in, "input")
				assert.Equal(t, "out", out, "output")
				if asked++; asked == 1 {
					return errBoom
				}
				return nil
			})
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		wantRecords(t, st, "started(0) failed(0,retry,condition,@postcondition) retrying(1,1s) started(1) completed(1)")
		assert.Equal(t, 2, ran, "handler ran")
		assert.Equal(t, 2, asked, "asked")
	})
}

func TestPostconditionIsNotAskedAboutAFailure(t *testing.T) {
	_, ctx := testkit.Run(t)
	asked := 0
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(errBoom)).Ensure(func(context.Context, string, string) error { asked++; return nil }))
	testkit.Failed(t, err, record.ReasonPermanent)
	assert.Equal(t, 0, asked, "asked")
}

func TestPostconditionThatNeverHoldsFailsTheCall(t *testing.T) {
	for _, tt := range []struct {
		name   string
		retry  core.RetryConfig
		err    error
		want   string
		reason record.Reason
	}{
		{"attempts used up", twice, errBoom, "started(0) failed(0,retry,condition,@postcondition) retrying(1,1s) started(1) failed(1,exhausted,condition,@postcondition)", record.ReasonExhausted},
		{"no retry", once, errBoom, "started(0) failed(0,condition,condition,@postcondition)", record.ReasonCondition},
		{"permanent", twice, core.Permanent(errBoom), "started(0) failed(0,condition,permanent,@postcondition)", record.ReasonCondition},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t)
				_, err := testkit.Call(ctx, testkit.Tool(t, "tool", tt.retry, testkit.Succeed).Ensure(func(context.Context, string, string) error { return tt.err }))
				wantRecords(t, st, tt.want)
				testkit.Failed(t, err, tt.reason)
				assert.ErrorIs(t, err, core.ErrCondition)
				assert.ErrorIs(t, err, errBoom)
			})
		})
	}
}

// shelf stores artifacts after failing the given number of times.
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

func (s *shelf) Get(context.Context, string) ([]byte, error) { return nil, snapshot.ErrNotFound }

func large(context.Context, string) (string, error) {
	return strings.Repeat("x", inline+1), nil
}

func TestArtifactFailureRunsTheHandlerAgain(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		s := &shelf{failures: 1, err: errBoom}
		st, ctx := testkit.Run(t, state.WithArtifacts(s))
		ran := 0
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Counted(&ran, large)))
		if err != nil || len(out) != inline+1 {
			t.Fatal(len(out), err)
		}
		wantRecords(t, st, "started(0) failed(0,retry,artifact,@artifact) retrying(1,1s) started(1) completed(1)")
		assert.Equal(t, 2, ran, "handler ran")
		assert.Len(t, s.kept, 1, "kept")
		last := calls(t, st)[4]
		assert.Equal(t, "artifact-1", last.Detail.Artifact, "reference")
		assert.Empty(t, last.Detail.Output, "inline output")
		var back string
		if err := record.Decode(s.kept[0], &back); err != nil || back != out {
			t.Errorf("the artifact is not the output: %v", err)
		}
	})
}

func TestArtifactThatCannotBeStoredFailsTheCall(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t, state.WithArtifacts(&shelf{failures: 9, err: errBoom}))
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, large))
		wantRecords(t, st, "started(0) failed(0,storage,artifact,@artifact)")
		testkit.Failed(t, err, record.ReasonStorage)
		assert.ErrorIs(t, err, core.ErrStorage)
		assert.ErrorIs(t, err, errBoom)

		st, ctx = testkit.Run(t, state.WithArtifacts(&shelf{failures: 9, err: errBoom}))
		_, err = testkit.Call(ctx, testkit.Tool(t, "tool", twice, large))
		wantRecords(t, st, "started(0) failed(0,retry,artifact,@artifact) retrying(1,1s) started(1) failed(1,exhausted,artifact,@artifact)")
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.ErrorIs(t, err, core.ErrStorage)
		assert.ErrorIs(t, err, errBoom)
	})
}

func TestSmallOutputIsNotAnArtifact(t *testing.T) {
	s := new(shelf)
	_, ctx := testkit.Run(t, state.WithArtifacts(s))
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Succeed))
	testkit.Completed(t, out, err)
	assert.Empty(t, s.kept, "kept")
}

type panickingShelf struct{}

func (panickingShelf) Put(context.Context, []byte) (string, error) { panic(errBoom) }
func (panickingShelf) Get(context.Context, string) ([]byte, error) { panic(errBoom) }

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
		d    *testkit.Definition
		want string
	}{
		{"handler", testkit.Tool(t, "tool", every, panicking), "started(0) failed(0,panic,panic)"},
		{"handler with a timeout", testkit.Tool(t, "tool", timed, panicking), "started(0) failed(0,panic,panic)"},
		{"precondition", testkit.Tool(t, "tool", every, testkit.Succeed).Require(func(context.Context, string) error { panic(errBoom) }), "failed(0,panic,panic,@precondition)"},
		{"postcondition", testkit.Tool(t, "tool", every, testkit.Succeed).Ensure(func(context.Context, string, string) error { panic(errBoom) }), "started(0) failed(0,panic,panic,@postcondition)"},
		{"RetryWhen about a failure", testkit.Tool(t, "tool", when, testkit.Fail(errFlaky)), "started(0) failed(0,panic,panic)"},
		{"RetryWhen about a success", testkit.Tool(t, "tool", when, testkit.Succeed), "started(0) failed(0,panic,panic)"},
		{"StopWhen", testkit.Tool(t, "tool", stop, testkit.Fail(errFlaky)), "started(0) failed(0,panic,panic)"},
		{"Matcher", testkit.Tool(t, "tool", matcher, testkit.Fail(errFlaky)), "started(0) failed(0,panic,panic)"},
		{"artifact storage", testkit.Tool(t, "tool", every, large), "started(0) failed(0,panic,panic,@artifact)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				st, ctx := testkit.Run(t, state.WithArtifacts(panickingShelf{}))
				_, err := testkit.Call(ctx, tt.d)
				wantRecords(t, st, tt.want)
				testkit.Failed(t, err, record.ReasonPanic)
				assert.ErrorIs(t, err, core.ErrPanic)
				var p *core.PanicError
				if !errors.As(err, &p) {
					t.Fatalf("no *core.PanicError in %v", err)
				}
				if !strings.Contains(string(p.Stack), "records_test.go") {
					t.Errorf("the stack does not lead to the panic:\n%s", p.Stack)
				}
				if !strings.Contains(err.Error(), "boom") {
					t.Errorf("%q does not name the value", err)
				}
			})
		})
	}
}

func TestPanicWithAnErrorIsThatError(t *testing.T) {
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, func(context.Context, string) (string, error) { panic(errBoom) }))
	assert.ErrorIs(t, err, core.ErrPanic)
	assert.ErrorIs(t, err, errBoom)
}

func TestPanicWhileJudgingKeepsTheJudgedError(t *testing.T) {
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", core.RetryConfig{RetryWhen: func(core.Attempt) bool { panic("oops") }}, testkit.Fail(errBoom)))
	assert.ErrorIs(t, err, core.ErrPanic)
	assert.ErrorIs(t, err, errBoom)
}

func TestRetryWhenMakesAnotherAttemptOfASuccess(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		n := 0
		poll := func(context.Context, string) (string, error) {
			n++
			return []string{"pending", "pending", "out"}[n-1], nil
		}
		cfg := steady
		cfg.RetryWhen = func(a core.Attempt) bool {
			assert.Equal(t, n, a.Number, "number")
			return a.Output == "pending"
		}
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, poll))
		testkit.Completed(t, out, err)
		wantRecords(t, st, "started(0) failed(0,retry,unknown) retrying(1,1s) started(1) failed(1,retry,unknown) retrying(2,2s) started(2) completed(2)")
	})
}

func TestPollingThatNeverEndsIsExhausted(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		cfg := twice
		cfg.RetryWhen = func(core.Attempt) bool { return true }
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Succeed))
		testkit.Failed(t, err, record.ReasonExhausted)
		wantRecords(t, st, "started(0) failed(0,retry,unknown) retrying(1,1s) started(1) failed(1,exhausted,unknown)")
	})
}

func TestStopWhenEndsPolling(t *testing.T) {
	cfg := atOnce
	cfg.RetryWhen = func(core.Attempt) bool { return true }
	cfg.StopWhen = func(core.Attempt) bool { return true }
	_, ctx := testkit.Run(t)
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", cfg, testkit.Succeed))
	testkit.Completed(t, out, err)
}

func TestSuccessThatRetryWhenRefusesIsNotAFailedPostcondition(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		cfg := core.RetryConfig{MaxAttempts: 1, RetryWhen: func(core.Attempt) bool { return true }}
		d := testkit.Tool(t, "tool", cfg, testkit.Succeed).Ensure(func(context.Context, string, string) error { return nil })
		_, err := testkit.Call(ctx, d)
		wantRecords(t, st, "started(0) failed(0,exhausted,unknown)")
		assert.NotErrorIs(t, err, core.ErrCondition)
	})
}

func TestRecordsContainAttemptsDelaysAndTimes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t, state.WithRunID("run-7"))
		start := time.Now().UTC().Round(0)
		d := testkit.Tool(t, "tool", steady, testkit.Attempts(
			func(ctx context.Context, _ string) (string, error) {
				return "", errors.Join(testkit.Pause(ctx, 3*time.Second), errFlaky)
			},
			testkit.Listening(4*time.Second),
		))
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		records := calls(t, st)
		if len(records) != 5 {
			t.Fatal(story(t, st))
		}
		second := time.Second
		for i, want := range []record.Record{
			{Time: start, Status: record.StatusStarted},
			{Time: start.Add(3 * second), Status: record.StatusFailed, WillRetry: true, Duration: 3 * second, Elapsed: 3 * second, Delay: second},
			{Time: start.Add(3 * second), Status: record.StatusRetrying, Attempt: 1, Elapsed: 3 * second, Delay: second},
			{Time: start.Add(4 * second), Status: record.StatusStarted, Attempt: 1, Elapsed: 4 * second, Delay: second},
			{Time: start.Add(8 * second), Status: record.StatusCompleted, Attempt: 1, Duration: 4 * second, Elapsed: 8 * second},
		} {
			got := records[i]
			assert.Equal(t, "run-7", got.RunID, "run")
			assert.Equal(t, uint64(i+2), got.Seq, "seq") // 1 begins the run
			assert.Equal(t, want.Time, got.Time, "time")
			assert.Equal(t, "tool", got.Name, "name")
			assert.Equal(t, record.KindTool, got.Kind, "kind")
			assert.Equal(t, "tool", got.Address.String(), "address")
			assert.Equal(t, want.Status, got.Status, "status")
			assert.Equal(t, want.Attempt, got.Attempt, "attempt")
			assert.Equal(t, want.Attempt > 0, got.IsRetry(), "is retry")
			assert.Equal(t, 3, got.MaxAttempts, "max attempts")
			assert.Equal(t, want.WillRetry, got.WillRetry, "will retry")
			assert.Equal(t, want.Duration, got.Duration, "duration")
			assert.Equal(t, want.Elapsed, got.Elapsed, "elapsed")
			assert.Equal(t, want.Delay, got.Delay, "delay")
			if want.Delay > 0 {
				assert.ErrorIs(t, got.Err, errFlaky)
			} else {
				assert.NoError(t, got.Err)
			}
			if want.Delay > 0 && want.Status != record.StatusStarted {
				assert.Equal(t, start.Add(4*second), got.NextAttemptAt(), "next attempt")
			} else {
				assert.Equal(t, time.Time{}, got.NextAttemptAt(), "next attempt")
			}
			assert.Equal(t, i == 4, got.IsOutcome(), "outcome")
			assert.False(t, got.IsSuspension(), "suspension")
		}
		assert.Equal(t, 2, records[4].TotalAttempts(), "total attempts")
	})
}

func TestUsageIsInTheRecordThatEndsTheAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		n := 0
		d := testkit.Tool(t, "tool", steady, func(ctx context.Context, _ string) (string, error) {
			n++
			core.AddUsage(ctx, core.Usage{InputTokens: n, Cost: 0.5})
			core.AddUsage(ctx, core.Usage{OutputTokens: 10 * n})
			if n == 1 {
				return "", errFlaky
			}
			return "out", nil
		})
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		records := calls(t, st)
		assert.Equal(t, core.Usage{InputTokens: 1, OutputTokens: 10, Cost: 0.5}, records[1].Detail.Usage, "of the failure")
		assert.Equal(t, core.Usage{InputTokens: 2, OutputTokens: 20, Cost: 0.5}, records[4].Detail.Usage, "of the success")
	})
}

func TestPayloadsAreInputAndOutput(t *testing.T) {
	st, ctx := testkit.Run(t, state.WithPayloads())
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Succeed))
	testkit.Completed(t, out, err)
	records := calls(t, st)
	var got string
	if err := record.Decode(records[0].Detail.Input, &got); err != nil || got != "in" {
		t.Errorf("input %q, %v", got, err)
	}
	if err := record.Decode(records[1].Detail.Output, &got); err != nil || got != "out" {
		t.Errorf("output %q, %v", got, err)
	}
	want, _ := record.HashOf("in")
	assert.Equal(t, want, records[0].Detail.InputHash, "hash")
}

func TestValueWithoutEncodingIsNotRetried(t *testing.T) {
	every := core.RetryConfig{RetryOn: []core.Matcher{core.MatchAny()}}
	st, ctx := testkit.Run(t, state.WithPayloads())
	d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &every}, func(context.Context, string) (any, error) { return func() {}, nil })
	_, err := d.Event().Execute(ctx, "in")
	wantRecords(t, st, "started(0) failed(0,permanent,invalid,@encode)")
	testkit.Failed(t, err, record.ReasonPermanent)

	st, ctx = testkit.Run(t, state.WithPayloads())
	ran := 0
	e := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &every}, func(context.Context, func()) (string, error) { ran++; return "", nil })
	_, err = e.Event().Execute(ctx, func() {})
	wantRecords(t, st, "failed(0,permanent,invalid,@entry)")
	testkit.Failed(t, err, record.ReasonPermanent)
	assert.Equal(t, 0, ran, "handler ran")
}

// This test uses real time: the wall clock and the monotonic clock are read one after the other.
func TestEndIsTheStartPlusTheDuration(t *testing.T) {
	st, ctx := testkit.Run(t)
	d := testkit.Tool(t, "tool", atOnce, testkit.Succeed)
	for range 200 {
		_, err := testkit.Call(ctx, d)
		require.NoError(t, err)
	}
	records := calls(t, st)
	require.Len(t, records, 400)
	for i := 0; i < len(records); i += 2 {
		began, ended := records[i], records[i+1]
		require.Equal(t, ended.Duration, ended.Time.Sub(began.Time), "of call %d", i/2)
	}
}
