package core_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// Tests of attempts that may have taken effect even though their handlers do not say so.

type statusError int

func (e statusError) Error() string       { return fmt.Sprintf("status %d", int(e)) }
func (e statusError) HTTPStatusCode() int { return int(e) }

// handshakeTimeout is like the unexported error of net/http.
type handshakeTimeout struct{}

func (handshakeTimeout) Error() string   { return "net/http: TLS handshake timeout" }
func (handshakeTimeout) Timeout() bool   { return true }
func (handshakeTimeout) Temporary() bool { return true }

// uncertain is a tool that pays, and counts how often it has paid.
type uncertain struct{ paid atomic.Int32 }

// call makes a call in a run. The first two attempts return the error from end.
func (p *uncertain) call(t *testing.T, spec core.Spec, end func(context.Context) error, ensure func(context.Context, string, string) error) error {
	t.Helper()
	spec.Kind, spec.Name = record.KindTool, "pay"
	pay := testkit.Define(t, spec, func(ctx context.Context, _ string) (string, error) {
		if p.paid.Add(1) < 3 {
			return "receipt", end(ctx)
		}
		return "receipt", nil
	}).Ensure(ensure)
	st, err := state.Open(t.Context(), memstore.New(), "r")
	require.NoError(t, err)
	_, err = pay.Event().Execute(st.Context(t.Context()), "")
	require.NoError(t, st.Close())
	return err
}

func always(context.Context, string, string) error { return nil }

// An attempt is in doubt if it is unknown whether it took effect. If the actor must not repeat an
// effect, no further attempt is made.
func TestAttemptsThatMayHaveTakenEffectAreNotRepeated(t *testing.T) {
	const timeout = time.Second
	for name, end := range map[string]func(context.Context) error{
		"timeout":                func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"abandoned":              func(ctx context.Context) error { _, err := testkit.Deaf(time.Hour)(ctx, ""); return err },
		"panic":                  func(context.Context) error { panic("oops") },
		"end of the connection":  func(context.Context) error { return fmt.Errorf("read response: %w", io.ErrUnexpectedEOF) },
		"reset":                  func(context.Context) error { return &net.OpError{Op: "read", Err: syscall.ECONNRESET} },
		"timeout of a client":    func(context.Context) error { return context.DeadlineExceeded },
		"canceled by the client": func(context.Context) error { return context.Canceled },
		"lost, then refused":     func(context.Context) error { return errors.Join(io.ErrUnexpectedEOF, syscall.ECONNREFUSED) },
		"status 500":             func(context.Context) error { return statusError(500) },
		"status 504":             func(context.Context) error { return statusError(504) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				p := new(uncertain)
				err := p.call(t, core.Spec{Irreversible: true, AttemptTimeout: timeout}, end, always)
				require.ErrorIs(t, err, core.ErrAwaiting)
				assert.EqualValues(t, 1, p.paid.Load())

				p = new(uncertain)
				err = p.call(t, core.Spec{InDoubt: core.InDoubtFail, AttemptTimeout: timeout}, end, always)
				require.ErrorIs(t, err, core.ErrInDoubt)
				assert.EqualValues(t, 1, p.paid.Load())

				p = new(uncertain)
				err = p.call(t, core.Spec{Irreversible: true, InDoubt: core.InDoubtRetry, AttemptTimeout: timeout}, end, always)
				if name == "panic" || name == "canceled by the client" { // never retried
					require.Error(t, err)
					require.NotErrorIs(t, err, core.ErrInDoubt)
					assert.EqualValues(t, 1, p.paid.Load())
					return
				}
				require.NoError(t, err)
				assert.EqualValues(t, 3, p.paid.Load(), "the actor allows it")
			})
		})
	}
}

// The question says what the call was about, as it does after a crash.
func TestQuestionAboutAnAttemptNamesInputAndKey(t *testing.T) {
	store, used := memstore.New(), ""
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: true}, func(ctx context.Context, _ string) (_ string, err error) {
		used, err = core.IdempotencyKey(ctx)
		return "", errors.Join(io.ErrUnexpectedEOF, err)
	})
	for range 2 { // the second time, the question has already been asked
		before := time.Now().Add(-time.Minute)
		st, err := state.Open(t.Context(), store, "r")
		require.NoError(t, err)
		_, err = pay.Event().Execute(st.Context(t.Context()), "49.90 for A1")
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, st.Close())
		open, err := state.Questions(t.Context(), store, "r")
		require.NoError(t, err)
		require.Len(t, open, 1)
		about := open[0].InDoubt
		require.NotNil(t, about)
		assert.Equal(t, `"49.90 for A1"`, record.Preview(about.Input))
		assert.Equal(t, used, about.IdempotencyKey)
		assert.Equal(t, "unexpected EOF", about.Cause)
		assert.True(t, about.Began.After(before), about.Began)
	}
}

// An attempt has failed if its handler says so, or if its request was not handled.
func TestAttemptsThatHaveFailedAreNotInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		paid int
	}{
		"refused":             {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, 3},
		"timeout of the dial": {&net.OpError{Op: "dial", Err: context.DeadlineExceeded}, 3},
		"no address":          {&net.DNSError{IsTemporary: true}, 3},
		"timeout of a proxy":  {&net.OpError{Op: "proxyconnect", Err: &net.OpError{Op: "dial", Err: context.DeadlineExceeded}}, 3},
		"timeout of TLS":      {handshakeTimeout{}, 3},
		"refused, with more":  {fmt.Errorf("%w: %w", errors.New("pay"), syscall.ECONNREFUSED), 3},
		"status 503":          {statusError(503), 3},
		"status 429":          {statusError(429), 3},
		"status 408":          {statusError(408), 3},
		"status 400":          {statusError(400), 1},
		"another error":       {errors.New("card declined"), 1},
		"retryable":           {core.Retryable(io.ErrUnexpectedEOF), 3},
		"permanent":           {core.Permanent(io.ErrUnexpectedEOF), 1},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				p := new(uncertain)
				err := p.call(t, core.Spec{Irreversible: true}, func(context.Context) error { return c.err }, always)
				if c.paid == 1 {
					require.ErrorIs(t, err, c.err)
					require.NotErrorIs(t, err, core.ErrAwaiting)
				} else {
					require.NoError(t, err)
				}
				assert.EqualValues(t, c.paid, p.paid.Load())
			})
		})
	}
}

// A handler that returned has taken effect, regardless of what follows.
func TestFailureAfterTheHandlerIsInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p := new(uncertain)
		err := p.call(t, core.Spec{Irreversible: true}, func(context.Context) error { return nil }, func(context.Context, string, string) error { return errors.New("no signature") })
		require.ErrorIs(t, err, core.ErrAwaiting)
		assert.EqualValues(t, 1, p.paid.Load())
	})
}

func TestFailureOfAnInterceptorAfterTheHandlerIsInDoubt(t *testing.T) {
	p := new(uncertain)
	after := core.Interceptor{Attempt: func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
		return errors.Join(next(ctx), core.Retryable(errors.New("the log is full")))
	}}
	err := p.call(t, core.Spec{Irreversible: true, Interceptors: []core.Interceptor{after}}, func(context.Context) error { return nil }, always)
	require.ErrorIs(t, err, core.ErrAwaiting)
	assert.EqualValues(t, 1, p.paid.Load())
}

// If a call must not be repeated, the output of a handler that returns just after its time limit is
// kept, so nobody has to be asked.
func TestSuccessJustAfterTheTimeLimit(t *testing.T) {
	end := func(ctx context.Context) error { <-ctx.Done(); return nil }
	testkit.Bubble(t, func(t *testing.T) {
		p := new(uncertain)
		require.NoError(t, p.call(t, core.Spec{Irreversible: true, AttemptTimeout: time.Second}, end, always))
		assert.EqualValues(t, 1, p.paid.Load())
		p = new(uncertain)
		require.NoError(t, p.call(t, core.Spec{AttemptTimeout: time.Second}, end, always))
		assert.EqualValues(t, 3, p.paid.Load(), "another actor")
	})
}

func TestHandlerThatEndsItsGoroutineIsInDoubt(t *testing.T) {
	store, paid, done := memstore.New(), 0, make(chan struct{})
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: true}, func(context.Context, string) (string, error) {
		paid++
		runtime.Goexit()
		return "", nil
	})
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	go func() {
		defer close(done)
		_, _ = pay.Event().Execute(st.Context(t.Context()), "")
	}()
	<-done
	require.NoError(t, st.Close())
	open, err := state.Questions(t.Context(), store, "r")
	require.NoError(t, err)
	assert.Len(t, open, 1)
	assert.Equal(t, 1, paid)
}

// Even if the handler ignores the error of an inner call that the time limit cut off, the attempt
// has still timed out.
func TestTimeoutOfACallInsideIsInDoubt(t *testing.T) {
	inner := testkit.Tool(t, "inner", core.RetryConfig{}, testkit.Listening(time.Hour))
	for _, ignored := range []bool{false, true} {
		testkit.Bubble(t, func(t *testing.T) {
			p := new(uncertain)
			err := p.call(t, core.Spec{Irreversible: true, AttemptTimeout: time.Second}, func(ctx context.Context) error {
				_, err := testkit.Call(ctx, inner)
				if ignored {
					return nil
				}
				return err
			}, always)
			require.ErrorIs(t, err, core.ErrAwaiting)
			assert.EqualValues(t, 1, p.paid.Load())
		})
	}
}

// An interceptor can replace the error, but that does not change what the handler may have done.
func TestErrorOfAnInterceptorHidesNoDoubt(t *testing.T) {
	for name, wrap := range map[string]func(error) error{
		"retryable":         core.Retryable,
		"permanent":         core.Permanent,
		"another retryable": func(error) error { return core.Retryable(errors.New("the service failed")) },
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				p := new(uncertain)
				err := p.call(t, core.Spec{Irreversible: true, Interceptors: []core.Interceptor{{
					Attempt: func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error {
						return wrap(next(ctx))
					},
				}}}, func(context.Context) error { return io.ErrUnexpectedEOF }, always)
				require.ErrorIs(t, err, core.ErrAwaiting)
				assert.EqualValues(t, 1, p.paid.Load())
			})
		})
	}
}

// An interceptor that answers with an old output does not know what the handler has done.
func TestAnswerOfAnInterceptorHidesNoDoubt(t *testing.T) {
	for name, lost := range map[string]error{"marked": core.InDoubt(errCutOff), "not marked": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			p := new(uncertain)
			old := testkit.Encoded(t, "an old receipt")
			err := p.call(t, core.Spec{Irreversible: true, Interceptors: []core.Interceptor{{
				Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
					if next(ctx) != nil {
						return call.Answer(old)
					}
					return nil
				},
			}}}, func(context.Context) error { return lost }, always)
			require.ErrorIs(t, err, core.ErrAwaiting)
			require.ErrorContains(t, err, lost.Error())
			assert.EqualValues(t, 1, p.paid.Load())
		})
	}
}

// If an interceptor answered an attempt, so that the handler did not run, the attempt is not in
// doubt.
func TestFailureAfterAnAnswerOfAnInterceptorIsNotInDoubt(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		p, times := new(uncertain), 0
		answer := testkit.Encoded(t, "cached")
		err := p.call(t, core.Spec{Irreversible: true, Interceptors: []core.Interceptor{{
			Attempt: func(_ context.Context, call *core.CallInfo, _ func(context.Context) error) error {
				if times++; times > 1 {
					return call.Answer(answer)
				}
				return errors.Join(call.Answer(answer), context.DeadlineExceeded)
			},
		}}}, func(context.Context) error { return nil }, always)
		require.NoError(t, err)
		assert.Zero(t, p.paid.Load())
		assert.Equal(t, 2, times)
	})
}

// Another attempt of a surrounding call would repeat a call that failed in doubt. So the class of
// that call's error is no reason for another attempt.
func TestCallsAroundOneThatFailedInDoubtAreNotRetried(t *testing.T) {
	retry := core.RetryConfig{InitialDelay: core.NoDelay}
	for name, c := range map[string]struct {
		wrap func(error) error
		paid int32
	}{
		"returned": {func(err error) error { return err }, 1},
		"joined with another": {func(err error) error {
			return errors.Join(io.EOF, &core.CallError{Name: "x", Reason: record.ReasonExhausted, Err: io.EOF}, err)
		}, 1},
		"marked as retryable":  {core.Retryable, 3},
		"replaced by another":  {func(error) error { return io.ErrUnexpectedEOF }, 3},
		"wrapped by a stopper": {func(err error) error { return fmt.Errorf("stop: %w", core.Permanent(err)) }, 1},
	} {
		for what, lost := range map[string]error{"not marked": io.ErrUnexpectedEOF, "marked": core.InDoubt(io.ErrUnexpectedEOF)} {
			t.Run(name+", "+what, func(t *testing.T) {
				var paid int32
				pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, func(context.Context, string) (string, error) {
					paid++
					return "", lost
				})
				order := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "order", Retry: &retry}, func(ctx context.Context, in string) (string, error) {
					out, err := pay.Event().Execute(ctx, in)
					return out, c.wrap(err)
				})
				_, ctx := testkit.Run(t)
				_, err := testkit.Call(ctx, order)
				require.Error(t, err)
				assert.Equal(t, c.paid, paid)
			})
		}
	}
}

// An error that was read from a record also says that a call failed in doubt, even if the
// surrounding call failed for another reason.
func TestRecordedErrorOfACallThatFailedInDoubtIsNotRetried(t *testing.T) {
	for _, options := range [][]state.Option{nil, {state.WithRoundTrip()}} {
		paid := 0
		pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, func(context.Context, string) (string, error) {
			paid++
			return "", io.ErrUnexpectedEOF
		})
		order := testkit.Tool(t, "order", core.RetryConfig{MaxAttempts: 1, RetryOn: []core.Matcher{core.MatchAny()}}, func(ctx context.Context, in string) (string, error) {
			return pay.Event().Execute(ctx, in)
		})
		_, ctx := testkit.Run(t, options...)
		_, err := testkit.Call(ctx, testkit.Agent(t, "host", core.RetryConfig{InitialDelay: core.NoDelay}, func(ctx context.Context, in string) (string, error) {
			return order.Event().Execute(ctx, in)
		}))
		require.ErrorIs(t, err, core.ErrInDoubt)
		assert.Equal(t, 1, paid, "through its recorded form: %v", options != nil)
	}
}

func TestAgentAroundAGroupWithACallThatFailedInDoubtIsNotRetried(t *testing.T) {
	paid, retry := 0, core.RetryConfig{InitialDelay: core.NoDelay}
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, func(context.Context, string) (string, error) {
		paid++
		return "", io.ErrUnexpectedEOF
	})
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Agent(t, "host", retry, func(ctx context.Context, _ string) (string, error) {
		_, err := actors.Parallel(ctx, actors.Group{Name: "orders"}, func(ctx context.Context) (string, error) { return testkit.Call(ctx, pay) })
		return "", err
	}))
	require.EqualError(t, err, "host/group:orders: 1 of 1 branches failed; host/group:orders/1/pay: in doubt: unexpected EOF")
	testkit.Failed(t, err, record.ReasonInDoubt)
	assert.Equal(t, 1, paid)
}

// Only an error from a dialer says that the request was not sent.
func TestTimeoutsDuringADial(t *testing.T) {
	block := func(timeout time.Duration) http.RoundTripper {
		return &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			<-ctx.Done()
			return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
		}}
	}
	for name, c := range map[string]struct {
		client  http.Client
		inDoubt bool
	}{
		"of the client": {http.Client{Timeout: time.Second, Transport: block(time.Hour)}, true},
		"of the dialer": {http.Client{Timeout: time.Hour, Transport: block(time.Second)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				p := new(uncertain)
				err := p.call(t, core.Spec{Irreversible: true}, func(ctx context.Context) error {
					request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://bank.test", http.NoBody)
					if err != nil {
						return err
					}
					response, err := c.client.Do(request)
					if err == nil {
						err = response.Body.Close()
					}
					return err
				}, always)
				if c.inDoubt {
					require.ErrorIs(t, err, core.ErrAwaiting)
				} else {
					require.NoError(t, err)
				}
			})
		})
	}
}
