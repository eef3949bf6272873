package core_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// around returns an interceptor that calls f around attempts.
func around(f func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error) core.Interceptor {
	return core.Interceptor{Attempt: f}
}

// noted returns an interceptor that appends its name, and each attempt and its result, to the list.
func noted(list *[]string, name string) core.Interceptor {
	return around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		*list = append(*list, fmt.Sprintf("%s: %v %s %d", name, call.Kind, call.Address, call.Number))
		err := next(ctx)
		*list = append(*list, fmt.Sprintf("%s: %v", name, err))
		return err
	})
}

func TestInterceptorsAreCalledFromTheRunInwards(t *testing.T) {
	var list []string
	d := testkit.Define(t, core.Spec{
		Kind: record.KindTool, Name: "tool", Retry: &atOnce,
		Interceptors: []core.Interceptor{noted(&list, "actor"), {}, noted(&list, "actor 2")},
	}, testkit.Failing(1, errFlaky))
	st, ctx := testkit.Run(t, state.WithInterceptors(noted(&list, "run")))
	out, err := d.Event().WithInterceptors(noted(&list, "event")).Execute(ctx, "in")
	testkit.Completed(t, out, err)
	wantRecords(t, st, "started(0) failed(0,retry,connection) retrying(1,0s) started(1) completed(1)")
	failed := errFlaky.Error()
	assert.Equal(t, []string{
		"run: tool_call tool 1", "actor: tool_call tool 1", "actor 2: tool_call tool 1", "event: tool_call tool 1",
		"event: " + failed, "actor 2: " + failed, "actor: " + failed, "run: " + failed,
		"run: tool_call tool 2", "actor: tool_call tool 2", "actor 2: tool_call tool 2", "event: tool_call tool 2",
		"event: <nil>", "actor 2: <nil>", "actor: <nil>", "run: <nil>",
	}, list)
}

type spanKey struct{}

func TestInterceptorPutsValuesIntoTheContextOfTheHandler(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"without a timeout": core.NoTimeout, "with a timeout": time.Hour} {
		t.Run(name, func(t *testing.T) {
			spec := core.Spec{Kind: record.KindAgent, Name: "agent", AttemptTimeout: timeout}
			spec.Interceptors = []core.Interceptor{around(func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				return next(context.WithValue(ctx, spanKey{}, "span"))
			})}
			d := testkit.Define(t, spec, func(ctx context.Context, _ string) (string, error) {
				assert.Equal(t, "span", ctx.Value(spanKey{}))
				return testkit.Call(ctx, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
					assert.Equal(t, "span", ctx.Value(spanKey{}), "value in the context of a call inside")
					return "out", nil
				}))
			})
			st, ctx := testkit.Run(t)
			out, err := testkit.Call(ctx, d)
			testkit.Completed(t, out, err)
			wantRecords(t, st, "agent:started(0) agent/tool:started(0) agent/tool:completed(0) agent:completed(0)")
		})
	}
}

// Each case has an interceptor that interferes with the end of an attempt, and says how the call
// must end.
func TestEndOfAnAttemptBelongsToTheEngine(t *testing.T) {
	own := errors.New("mine")
	cases := map[string]struct {
		interceptor func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error
		handler     testkit.Handler
		runs        int
		records     string
		is          []error
	}{
		"swallows an error": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_ = next(ctx)
				return nil
			},
			testkit.Fail(errBoom), 1, "started(0) failed(0,permanent,unknown)",
			[]error{errBoom},
		},
		"swallows an error that is retried": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_ = next(ctx)
				return nil
			},
			testkit.Fail(errFlaky), 2, "started(0) failed(0,retry,connection) retrying(1,0s) started(1) failed(1,exhausted,connection)",
			[]error{errFlaky},
		},
		"replaces an error": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_ = next(ctx)
				return own
			},
			testkit.Fail(errBoom), 1, "started(0) failed(0,permanent,unknown)",
			[]error{errBoom, own},
		},
		"makes an error permanent": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				return core.Permanent(next(ctx))
			},
			testkit.Fail(errFlaky), 1, "started(0) failed(0,permanent,permanent)",
			[]error{errFlaky},
		},
		"makes an error retryable": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				return core.Retryable(next(ctx))
			},
			flakyOnce(errBoom), 2, "started(0) failed(0,retry,unknown) retrying(1,0s) started(1) completed(1)", nil,
		},
		"fails a success": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_ = next(ctx)
				return own
			},
			testkit.Succeed, 1, "started(0) failed(0,permanent,unknown)",
			[]error{own},
		},
		"refuses": {
			func(context.Context, *core.CallInfo, func(context.Context) error) error { return own },
			testkit.Succeed, 0, "started(0) failed(0,permanent,unknown)",
			[]error{own},
		},
		"refuses for now": {
			func(context.Context, *core.CallInfo, func(context.Context) error) error { return core.Retryable(own) },
			testkit.Succeed, 0, "started(0) failed(0,retry,unknown) retrying(1,0s) started(1) failed(1,exhausted,unknown)",
			[]error{own},
		},
		"refuses by a budget": {
			func(context.Context, *core.CallInfo, func(context.Context) error) error {
				return fmt.Errorf("%w: 9 of 10 tokens", core.ErrBudget)
			},
			testkit.Succeed, 0, "started(0) failed(0,budget,unknown)",
			[]error{core.ErrBudget},
		},
		"does nothing": {
			func(context.Context, *core.CallInfo, func(context.Context) error) error { return nil },
			testkit.Succeed, 0, "started(0) failed(0,permanent,permanent)", nil,
		},
		"panics before": {
			func(context.Context, *core.CallInfo, func(context.Context) error) error { panic("bang") },
			testkit.Succeed, 0, "started(0) failed(0,panic,panic)",
			[]error{core.ErrPanic},
		},
		"panics after": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_ = next(ctx)
				panic("bang")
			},
			testkit.Succeed, 1, "started(0) failed(0,panic,panic)",
			[]error{core.ErrPanic},
		},
		"swallows a panic": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_ = next(ctx)
				return nil
			},
			func(context.Context, string) (string, error) { panic("bang") }, 1, "started(0) failed(0,panic,panic)",
			[]error{core.ErrPanic},
		},
		"calls next twice after a failure": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_ = next(ctx)
				return next(ctx)
			},
			flakyOnce(errFlaky), 2, "started(0) failed(0,retry,connection) retrying(1,0s) started(1) failed(1,permanent,unknown)", nil,
		},
		"calls next with a foreign context": {
			func(_ context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				return next(t.Context())
			},
			testkit.Succeed, 0, "started(0) failed(0,permanent,permanent)", nil,
		},
		"calls next after a panic of the one inside": {
			func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				defer func() { _ = recover() }()
				_ = next(ctx)
				panic("bang")
			},
			testkit.Succeed, 1, "started(0) completed(0)", nil,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, timeout := range []time.Duration{0, time.Hour} {
				runs, retry := 0, core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay, AttemptTimeout: timeout}
				d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &retry, Interceptors: []core.Interceptor{around(c.interceptor)}},
					testkit.Counted(&runs, c.handler))
				st, ctx := testkit.Run(t)
				_, err := testkit.Call(ctx, d)
				wantRecords(t, st, c.records)
				assert.Equal(t, c.runs, runs, "runs of the handler")
				for _, want := range c.is {
					require.ErrorIs(t, err, want)
				}
			}
		})
	}
}

// flakyOnce returns a handler whose first attempt fails.
func flakyOnce(err error) testkit.Handler {
	return func(ctx context.Context, _ string) (string, error) {
		if core.ScopeOf(ctx).Attempt() == 0 {
			return "", err
		}
		return "out", nil
	}
}

// If an interceptor calls next on another goroutine, the attempt ends when that goroutine does.
func TestInterceptorThatDoesNotWaitForItsAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		handed := make(chan func(context.Context) error, 1)
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &once, Interceptors: []core.Interceptor{
			around(func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				running := make(chan struct{})
				go func() {
					close(running)
					_ = next(ctx)
				}()
				<-running
				_ = testkit.Pause(ctx, time.Second)
				handed <- next
				return nil
			}),
		}}, func(ctx context.Context, _ string) (string, error) { return "out", testkit.Pause(ctx, time.Minute) })
		st, ctx := testkit.Run(t)
		passed := testkit.Stopwatch()
		out, err := testkit.Call(ctx, d)
		testkit.Completed(t, out, err)
		assert.Equal(t, time.Minute, passed())
		wantRecords(t, st, "started(0) completed(0)")
		require.Error(t, (<-handed)(ctx), "next called after the attempt ended")
		wantRecords(t, st, "started(0) completed(0)")
	})
}

// Calls made with an interceptor's context belong to no attempt, and fail.
func TestInterceptorMakesNoCalls(t *testing.T) {
	inner := testkit.Tool(t, "inner", once, testkit.Succeed)
	store := memstore.New()
	for range 2 { // the second time with the records of the first
		spec := core.Spec{Kind: record.KindAgent, Name: "agent", NoStore: true, Interceptors: []core.Interceptor{
			around(func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
				_, err := testkit.Call(ctx, inner)
				assert.ErrorIs(t, err, core.ErrAttemptOver)
				return next(ctx)
			}),
		}}
		d := testkit.Define(t, spec, func(ctx context.Context, _ string) (string, error) { return testkit.Call(ctx, inner) })
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), d)
		testkit.Completed(t, out, err)
		require.NoError(t, st.Close())
	}
}

func TestInterceptorsAreNotCalledForWhatIsRecalled(t *testing.T) {
	var list []string
	d := testkit.Tool(t, "tool", once, testkit.Succeed)
	store := memstore.New()
	for range 2 {
		st, err := state.Open(t.Context(), store, "run", state.WithInterceptors(noted(&list, "run")))
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), d)
		testkit.Completed(t, out, err)
		require.NoError(t, st.Close())
	}
	assert.Equal(t, []string{"run: tool_call tool 1", "run: <nil>"}, list)
	differences, err := state.ValidateExecute(t.Context(), store, "run", func(ctx context.Context) error {
		_, err := testkit.Call(ctx, d)
		return err
	}, state.WithInterceptors(noted(&list, "validation")))
	require.NoError(t, err)
	assert.Empty(t, differences)
	assert.Len(t, list, 2)
}

func TestInterceptorCannotSwallowASuspension(t *testing.T) {
	swallow := around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if err := next(ctx); call.Kind == record.KindAgent {
			assert.True(t, core.IsSuspension(err), "%v", err)
		}
		if call.Kind == record.KindAgent {
			require.Error(t, call.Answer(testkit.Encoded(t, "answer")))
		}
		return nil
	})
	d := testkit.Agent(t, "agent", atOnce, func(ctx context.Context, _ string) (string, error) {
		_, _ = core.Await[string](ctx, "name?")
		return "out", nil
	})
	st, ctx := testkit.Run(t, state.WithInterceptors(swallow))
	_, err := testkit.Call(ctx, d)
	testkit.Interrupted(t, err, record.InterruptAwait)
	assert.Equal(t, record.StatusAwaiting, calls(t, st)[1].Status)
}

func TestInterceptorAnswers(t *testing.T) {
	runs := 0
	tool := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &atOnce}, testkit.Counted(&runs, testkit.Fail(errBoom))).
		Ensure(func(_ context.Context, _, out string) error {
			if out == "wrong" {
				return errors.New("wrong")
			}
			return nil
		})
	answers := func(values ...any) core.Interceptor {
		return around(func(_ context.Context, call *core.CallInfo, next func(context.Context) error) error {
			var err error
			for _, v := range values {
				if err = call.Answer(testkit.Encoded(t, v)); err == nil {
					assert.True(t, call.Answered())
					require.Error(t, call.Answer(testkit.Encoded(t, v)), "once")
				}
			}
			return err
		})
	}
	st, ctx := testkit.Run(t, state.WithPayloads())
	out, err := tool.Event().WithInterceptors(answers("wrong", 7, "out")).Execute(ctx, "in")
	testkit.Completed(t, out, err)
	_, err = tool.Event().WithInterceptors(answers("wrong")).Execute(ctx, "in")
	require.ErrorContains(t, err, "wrong")
	_, err = tool.Event().WithInterceptors(answers(7)).Execute(ctx, "in")
	require.ErrorContains(t, err, "does not fit the output")
	assert.Zero(t, runs)
	completed := calls(t, st)[1]
	assert.True(t, completed.Detail.Cached)
	assert.Equal(t, testkit.Encoded(t, "out"), completed.Detail.Output)

	fallback := around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if next(ctx) == nil {
			return nil
		}
		return call.Answer(testkit.Encoded(t, "out"))
	})
	out, err = tool.Event().WithInterceptors(fallback).Execute(ctx, "in")
	testkit.Completed(t, out, err)
	assert.Equal(t, 1, runs)
}

func TestInterceptorSeesInputAndOutput(t *testing.T) {
	var in, out []byte
	var tooEarly, tooLate error
	var kept *core.CallInfo
	see := around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		kept = call
		in, _ = call.Input()
		_, tooEarly = call.Output()
		err := next(ctx)
		out, _ = call.Output()
		return err
	})
	_, ctx := testkit.Run(t, state.WithInterceptors(see))
	got, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Succeed))
	testkit.Completed(t, got, err)
	assert.Equal(t, testkit.Encoded(t, "in"), in)
	assert.Equal(t, testkit.Encoded(t, "out"), out)
	_, tooLate = kept.Output()
	require.Error(t, tooEarly)
	require.Error(t, tooLate)
	require.Error(t, kept.Answer(out))
	require.Error(t, kept.Wait(ctx, time.Hour, "nothing"))
}

// If an interceptor's own timeout expires, the attempt fails, but the call does not end.
func TestTimeoutOfAnInterceptorIsThatOfTheAttempt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		hurry := around(func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
			ctx, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			return next(ctx)
		})
		listening := testkit.Attempts(testkit.Listening(time.Hour), testkit.Succeed)
		inside := testkit.Tool(t, "inside", once, testkit.Attempts(testkit.Listening(time.Hour), testkit.Succeed))
		agent := func(ctx context.Context, _ string) (string, error) {
			_, _ = testkit.Call(ctx, inside) // and ignores the error
			return "out", nil
		}
		for _, timeout := range []time.Duration{0, time.Hour} {
			retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay, AttemptTimeout: timeout}
			st, ctx := testkit.Run(t)
			out, err := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &retry, Interceptors: []core.Interceptor{hurry}}, listening).
				Event().Execute(ctx, "in")
			testkit.Completed(t, out, err)
			wantRecords(t, st, "started(0) failed(0,retry,timeout) retrying(1,0s) started(1) completed(1)")

			st, ctx = testkit.Run(t)
			out, err = testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "agent", Retry: &retry, Interceptors: []core.Interceptor{hurry}}, agent).
				Event().Execute(ctx, "in")
			testkit.Completed(t, out, err)
			assert.Equal(t, "agent:failed(0,retry,timeout)", findStory(t, st, "agent:failed"))
			listening = testkit.Attempts(testkit.Listening(time.Hour), testkit.Succeed)
			inside = testkit.Tool(t, "inside", once, testkit.Attempts(testkit.Listening(time.Hour), testkit.Succeed))
		}
	})
}

func findStory(t testing.TB, st *state.ExecutionState, prefix string) string {
	for _, r := range calls(t, st) {
		if word := r.Address.String() + ":" + brief(r); len(word) >= len(prefix) && word[:len(prefix)] == prefix {
			return word
		}
	}
	return ""
}

// waiting returns an interceptor that waits for d before each attempt.
func waiting(d time.Duration) core.Interceptor {
	return around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if err := call.Wait(ctx, d, "the limit of requests"); err != nil {
			return err
		}
		return next(ctx)
	})
}

func TestWaitOfAnInterceptor(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		retry := core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}
		st, ctx := testkit.Run(t, state.WithInterceptors(waiting(time.Minute)))
		passed := testkit.Stopwatch()
		out, err := testkit.Call(ctx, testkit.Tool(t, "tool", retry, testkit.Succeed))
		testkit.Completed(t, out, err)
		assert.Equal(t, time.Minute, passed(), "the wait does not count against the timeout of the attempt")
		logs := slices.DeleteFunc(testkit.Records(t, st), func(r record.Record) bool { return r.Kind != record.KindLog })
		require.Len(t, logs, 1)
		assert.Equal(t, "waits 1m0s for the limit of requests", logs[0].Detail.Message)
		assert.Equal(t, "tool", logs[0].Address.String())

		retry = core.RetryConfig{RetryTimeout: 30 * time.Second}
		_, err = testkit.Call(ctx, testkit.Tool(t, "tool", retry, testkit.Succeed))
		failed := testkit.Failed(t, err, record.ReasonRetryTimeout)
		assert.ErrorContains(t, failed, "waiting 1m0s for the limit of requests would take too long")
		assert.Equal(t, "RetryTimeout is 30s", failed.Detail)
		assert.Equal(t, time.Minute, passed(), "the second wait does not begin")
	})
}

// A call that is interrupted before its handler runs is not in doubt.
func TestInterruptDuringTheWaitOfAnInterceptor(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		runs, store := 0, memstore.New()
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", InDoubt: core.InDoubtAsk, AttemptTimeout: time.Second},
			testkit.Counted(&runs, testkit.Succeed))
		stops := []func(*state.ExecutionState){
			func(st *state.ExecutionState) { st.Interrupt(snapshot.Stop{By: "ops"}) },
			func(st *state.ExecutionState) { _ = st.Shutdown(t.Context()) },
		}
		for _, stop := range stops {
			st, err := state.Open(t.Context(), store, "run", state.WithInterceptors(waiting(time.Hour)))
			require.NoError(t, err)
			passed := testkit.Stopwatch()
			time.AfterFunc(time.Minute, func() { stop(st) })
			_, err = testkit.Call(st.Context(t.Context()), d)
			require.True(t, core.IsSuspension(err), "%v", err)
			assert.Equal(t, time.Minute, passed())
			require.NoError(t, st.Close())
		}
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), d)
		testkit.Completed(t, out, err)
		require.NoError(t, st.Close())
		assert.Equal(t, 1, runs)
		assert.Equal(t, "interrupted(0,user,@intercept)", brief(testkit.LoadRun(t, store, "run").Records[3]))
	})
}

// pacing returns an interceptor that waits until ready is closed, which it expects to happen after
// d.
func pacing(ready <-chan struct{}, d time.Duration) core.Interceptor {
	return around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if err := call.WaitFor(ctx, ready, d, "its turn"); err != nil {
			return err
		}
		return next(ctx)
	})
}

func TestWaitOfAnInterceptorForAnEvent(t *testing.T) {
	for name, polls := range map[string][]state.Option{
		"": nil, "with a checker": {state.WithInterruptChecker(func(context.Context) (*core.InterruptedError, error) { return nil, nil })},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				ready := make(chan struct{})
				st, ctx := testkit.Run(t, append(polls, state.WithInterceptors(pacing(ready, time.Hour)))...)
				passed := testkit.Stopwatch()
				time.AfterFunc(time.Minute, func() { close(ready) })
				out, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Succeed))
				testkit.Completed(t, out, err)
				assert.Equal(t, time.Minute, passed())
				out, err = testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Succeed))
				testkit.Completed(t, out, err)
				assert.Equal(t, time.Minute, passed(), "the event has already happened")
				logs := slices.DeleteFunc(testkit.Records(t, st), func(r record.Record) bool { return r.Kind != record.KindLog })
				require.Len(t, logs, 1)
				assert.Equal(t, "waits 1h0m0s for its turn", logs[0].Detail.Message)
			})
		})
	}
}

// A long wait of an interceptor parks the run. The wait is not an attempt, so it puts no call in
// doubt.
func TestLongWaitOfAnInterceptorParksTheRun(t *testing.T) {
	for _, failures := range []int{0, 1} {
		testkit.Bubble(t, func(t *testing.T) {
			runs, store, begin, lifted := 0, memstore.New(), time.Now(), time.Now().Add(5*time.Hour)
			limited := around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
				if left := time.Until(lifted); left > 0 && call.Number > failures {
					call.Annotate("limit", "daily")
					if err := call.WaitFor(ctx, nil, left, "the daily limit"); err != nil {
						return err
					}
				}
				return next(ctx)
			})
			retry := core.RetryConfig{InitialDelay: core.NoDelay, AttemptTimeout: time.Minute}
			d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &retry, InDoubt: core.InDoubtAsk},
				testkit.Counted(&runs, testkit.Failing(failures, errFlaky)))
			open := func() (string, snapshot.Info, error) {
				st, err := state.Open(t.Context(), store, "run", state.WithParking(time.Minute), state.WithInterceptors(limited))
				require.NoError(t, err)
				out, err := testkit.Call(st.Context(t.Context()), d)
				require.NoError(t, st.Close())
				info, infoErr := store.Info(t.Context(), "run")
				require.NoError(t, infoErr)
				return out, info, err
			}
			_, info, err := open()
			e := testkit.Interrupted(t, err, record.InterruptAwait)
			assert.Equal(t, "the attempt waits for the daily limit and begins at 2000-01-01T05:00:00Z", e.Message)
			assert.Equal(t, snapshot.StatusPaused, info.Status)
			assert.True(t, info.Due.Equal(lifted), "%v", info.Due)
			parked := testkit.LoadRun(t, store, "run").Records
			last := parked[len(parked)-2]
			assert.True(t, last.IsParked())
			assert.Equal(t, failures, last.TotalAttempts(), "the waiting attempt did not begin")
			assert.Equal(t, map[string]any{"limit": "daily"}, last.Detail.Metadata)

			_ = testkit.Pause(t.Context(), time.Hour)
			_, info, err = open()
			testkit.Interrupted(t, err, record.InterruptAwait)
			assert.True(t, info.Due.Equal(lifted), "%v", info.Due)

			_ = testkit.Pause(t.Context(), 5*time.Hour)
			out, info, err := open()
			testkit.Completed(t, out, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status)
			assert.Equal(t, 6*time.Hour, time.Since(begin))
			assert.Equal(t, failures+1, runs)
		})
	}
}

func TestInterceptorSeesTheRun(t *testing.T) {
	store := memstore.New()
	for n := range 2 {
		st, err := state.Open(t.Context(), store, "run", state.WithMetadata(snapshot.Metadata{Tags: []string{"tenant:a"}}), state.WithFurtherCalls(),
			state.WithInterceptors(around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
				assert.Equal(t, []string{"tenant:a"}, call.Tags)
				counts := call.RunCounts()
				assert.Equal(t, 7*n, counts.Usage.InputTokens)
				assert.Equal(t, n+1, counts.Attempts)
				return next(ctx)
			})))
		require.NoError(t, err)
		ctx := st.Context(t.Context())
		for i := range n + 1 { // the first call of the second opening is recalled
			out, err := testkit.Call(ctx, testkit.Tool(t, fmt.Sprint("tool", i), once, func(ctx context.Context, _ string) (string, error) {
				assert.Equal(t, []string{"tenant:a"}, core.ScopeOf(ctx).Tags())
				assert.Equal(t, n+1, core.ScopeOf(ctx).RunCounts().Attempts)
				core.AddUsage(ctx, core.Usage{InputTokens: 7})
				return "out", nil
			}))
			testkit.Completed(t, out, err)
		}
		require.NoError(t, st.Close())
	}
	_, err := testkit.Tool(t, "tool", once, testkit.Succeed).Event().WithInterceptors(around(
		func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
			assert.Zero(t, call.RunCounts(), "outside a run")
			return next(ctx)
		})).Execute(t.Context(), "in")
	require.NoError(t, err)
}

// There are two budgets: if the second refuses a retry, the first takes back what it has counted.
func TestRefusedRetryIsGivenBack(t *testing.T) {
	given := 0
	gives := core.Interceptor{Retry: func(*core.CallInfo, error) (func(), error) {
		given++
		return func() { given-- }, nil
	}}
	refuses := core.Interceptor{Retry: func(call *core.CallInfo, err error) (func(), error) {
		assert.Equal(t, record.ClassConnection, record.Classify(err))
		assert.Equal(t, 1, call.Number)
		return nil, errors.New("that was enough")
	}}
	panics := core.Interceptor{Retry: func(*core.CallInfo, error) (func(), error) { panic("bang") }}
	d := testkit.Tool(t, "tool", atOnce, testkit.Fail(errFlaky))
	_, err := d.Event().WithInterceptors(gives, refuses).Execute(t.Context(), "in")
	failed := testkit.Failed(t, err, record.ReasonBudget)
	assert.Equal(t, "that was enough", failed.Detail)
	require.ErrorIs(t, err, errFlaky)
	_, err = d.Event().WithInterceptors(gives, panics).Execute(t.Context(), "in")
	testkit.Failed(t, err, record.ReasonPanic)
	require.ErrorIs(t, err, errFlaky)
	assert.Zero(t, given)
	_, err = d.Event().WithInterceptors(gives).Execute(t.Context(), "in")
	testkit.Failed(t, err, record.ReasonExhausted)
	assert.Equal(t, 2, given)
}

func TestInterceptorLogs(t *testing.T) {
	logging := around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		call.Log(slog.LevelWarn, "careful", map[string]any{"n": 1})
		return next(ctx)
	})
	st, ctx := testkit.Run(t)
	_, err := testkit.Tool(t, "tool", once, testkit.Succeed).Event().WithInterceptors(logging).Execute(ctx, "in")
	require.NoError(t, err)
	r := testkit.Records(t, st)[2]
	assert.Equal(t, record.KindLog, r.Kind)
	assert.Equal(t, "careful", r.Detail.Message)
	_, err = testkit.Tool(t, "tool", once, testkit.Succeed).Event().WithInterceptors(logging).Execute(t.Context(), "in")
	require.NoError(t, err, "a line logged outside a run is dropped")
}

// If an interceptor answers a call, the output belongs to the effect of another call. That effect
// must not be undone together with the answered call.
func TestAnsweredCallIsNotCompensated(t *testing.T) {
	undone := 0
	tool := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "book"}, testkit.Succeed).
		Compensate(func(context.Context, string, string) error { undone++; return nil })
	answer := around(func(_ context.Context, call *core.CallInfo, _ func(context.Context) error) error {
		require.True(t, call.Compensable())
		return call.Answer(testkit.Encoded(t, "out"))
	})
	st := state.New()
	for i, event := range []core.ExecutionEvent[string, string]{tool.Event().WithInterceptors(answer), tool.Event()} {
		_, err := testkit.Call(st.Context(t.Context()), testkit.Agent(t, "agent", once, func(ctx context.Context, in string) (string, error) {
			_, err := event.Execute(ctx, in)
			return "", errors.Join(err, errors.New("boom"))
		}))
		require.ErrorContains(t, err, "boom")
		assert.Equal(t, i, undone)
	}
	require.NoError(t, st.Close())
}
