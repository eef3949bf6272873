package runner_test

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// Errors with a method that ends the goroutine, as t.FailNow does.
type (
	leavesError  struct{}
	leavesIs     struct{ error }
	leavesAs     struct{ error }
	leavesUnwrap struct{ error }
	leavesStatus struct{ error }
)

func (leavesError) Error() string        { runtime.Goexit(); return "" }
func (leavesIs) Is(error) bool           { runtime.Goexit(); return false }
func (leavesAs) As(any) bool             { runtime.Goexit(); return false }
func (leavesUnwrap) Unwrap() error       { runtime.Goexit(); return nil }
func (leavesStatus) HTTPStatusCode() int { runtime.Goexit(); return 0 }

// A run with such an error fails, instead of being continued over and over again.
func TestRunWhoseErrorEndsItsGoroutineFails(t *testing.T) {
	plain := errors.New("out of ink")
	fail := func(err error) func(context.Context, word) (string, error) {
		return func(context.Context, word) (string, error) { return "", err }
	}
	succeed := func(_ context.Context, in word) (string, error) { return in.Text, nil }
	tool := func(err error, opts ...actors.Option) actors.Tool[word, string] {
		return decorators.Tool("tool", "", fail(err), opts...)
	}
	undone := func(err error) actors.Tool[word, string] {
		return decorators.Tool("tool", "", succeed).Compensate(func(context.Context, word, string) error { return err })
	}
	calling := map[string]func(error) func(context.Context, word) (string, error){
		"agent": fail,
		"tool":  func(err error) func(context.Context, word) (string, error) { return tool(err).Call },
		"limited tool": func(err error) func(context.Context, word) (string, error) {
			return tool(err, actors.WithAttemptTimeout(time.Hour)).Call
		},
		"retried tool": func(err error) func(context.Context, word) (string, error) {
			var n atomic.Int32
			return decorators.Tool("tool", "", func(context.Context, word) (string, error) {
				if n.Add(1) == 1 {
					return "", core.Retryable(plain)
				}
				return "", err
			}).Call
		},
		"tool in doubt": func(err error) func(context.Context, word) (string, error) {
			return tool(err, actors.WithInDoubt(core.InDoubtFail)).Call
		},
		"intercepted tool": func(err error) func(context.Context, word) (string, error) {
			return tool(err, actors.WithInterceptors(core.Interceptor{
				Attempt: func(ctx context.Context, _ *core.CallInfo, next func(context.Context) error) error { return next(ctx) },
			})).Call
		},
		"precondition": func(err error) func(context.Context, word) (string, error) {
			return decorators.Tool("tool", "", succeed).Require(func(context.Context, word) error { return err }).Call
		},
		"postcondition": func(err error) func(context.Context, word) (string, error) {
			return decorators.Tool("tool", "", succeed).Ensure(func(context.Context, word, string) error { return err }).Call
		},
		"step": func(err error) func(context.Context, word) (string, error) {
			return func(ctx context.Context, _ word) (string, error) {
				return core.Step(ctx, "step", func(context.Context) (string, error) { return "", err })
			}
		},
		"branch": func(err error) func(context.Context, word) (string, error) {
			return func(ctx context.Context, _ word) (string, error) {
				_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, func(context.Context) (string, error) { return "", err })
				return "", err
			}
		},
		"marked": func(err error) func(context.Context, word) (string, error) { return tool(core.Retryable(err)).Call },
		"compensation": func(err error) func(context.Context, word) (string, error) {
			return func(ctx context.Context, in word) (string, error) {
				_, _ = undone(err).Call(ctx, in)
				return "", plain
			}
		},
	}
	for method, err := range map[string]error{
		"Error": leavesError{}, "Is": leavesIs{plain}, "As": leavesAs{plain}, "Unwrap": leavesUnwrap{plain}, "HTTPStatusCode": leavesStatus{plain},
	} {
		for name, program := range calling {
			t.Run(name+"/"+method, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store, opened := memstore.New(), 0
					r := newRunner(t, store, runner.Options{
						Run: []state.Option{state.WithCompensations(undone(err))},
						Observe: func(n runner.Notice) {
							if n.Type == runner.NoticeOpened {
								opened++
							}
						},
					})
					runner.Register(r, agent("work", program(err)))
					stop := serve(t, r)
					_, err := r.Start(t.Context(), "work", "a", word{"x"}, runner.StartOptions{})
					require.NoError(t, err)
					sleep(time.Minute)
					require.NoError(t, stop())
					info, err := store.Info(t.Context(), "a")
					require.NoError(t, err)
					assert.Equal(t, snapshot.StatusFailed, info.Status, "%v", info.Stop)
					assert.Equal(t, 1, opened)
				})
			})
		}
	}
}
