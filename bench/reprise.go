package main

import (
	"context"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// runLength is the number of calls in a run.
const runLength = 10_000

// newTool returns the tool that all of Reprise's contestants call.
func newTool(handle core.Handler[int, int], retry core.RetryConfig, timeout time.Duration) *core.Definition[int, int] {
	d, err := core.NewDefinition(core.Spec{
		Kind: record.KindTool, Name: "work", Retry: &retry, AttemptTimeout: timeout,
	}, handle)
	if err != nil {
		panic(err)
	}
	return d
}

var immediateRetry = core.RetryConfig{MaxAttempts: attempts, InitialDelay: core.NoDelay}

func startReprise(h handler, timeout time.Duration) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		w.boom = core.Retryable(errBoom)
		tool := newTool(h.bind(w), immediateRetry, timeout)
		return instance{call: func() (int, error) { return tool.Event().Execute(ctx, answer) }}
	}
}

func startRun(h handler, timeout time.Duration) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		w.boom = core.Retryable(errBoom)
		r := &runs{outer: ctx, tool: newTool(h.bind(w), immediateRetry, timeout)}
		return instance{call: r.call, stop: r.stop}
	}
}

func startRunSubscriber(h handler, timeout time.Duration) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		w.boom = core.Retryable(errBoom)
		events := bus.New()
		var records uint64 // number of records in the runs that have ended
		subscription := events.Subscribe(func(r record.Record) {
			w.heard++
			if r.Kind == record.KindRun && r.Status == record.StatusCompleted {
				records += r.Seq
			}
		}, bus.WithBlock(time.Minute))
		r := &runs{
			outer: ctx, tool: newTool(h.bind(w), immediateRetry, timeout),
			options: []state.Option{state.WithPublisher(events)},
		}
		stop := func() error {
			if err := r.stop(); err != nil {
				return err
			}
			events.Close()
			if stats := subscription.Stats(); stats.Delivered != records {
				return fmt.Errorf("the runs have %d records, the subscriber got %+v", records, stats)
			}
			return nil
		}
		return instance{call: r.call, stop: stop, notified: func() int { return w.heard }}
	}
}

// listener is a publisher that the run calls directly, on the caller's
// goroutine, as the peers call their listeners.
type listener struct{ w *work }

func (l listener) Publish(record.Record) { l.w.heard++ }

func startRunListener(h handler, timeout time.Duration) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		w.boom = core.Retryable(errBoom)
		r := &runs{
			outer: ctx, tool: newTool(h.bind(w), immediateRetry, timeout),
			options: []state.Option{state.WithPublisher(listener{w})},
		}
		return instance{call: r.call, stop: r.stop, notified: func() int { return w.heard }}
	}
}

// runs makes calls, in one run after another.
type runs struct {
	outer   context.Context
	tool    *core.Definition[int, int]
	options []state.Option

	st   *state.ExecutionState
	ctx  context.Context
	left int // number of calls that the run still has to make
}

func (r *runs) call() (int, error) {
	if r.left == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	r.left--
	return r.tool.Event().Execute(r.ctx, answer)
}

func (r *runs) next() error {
	if err := r.stop(); err != nil {
		return err
	}
	r.st = state.New(r.options...)
	r.ctx, r.left = r.st.Context(r.outer), runLength
	return nil
}

func (r *runs) stop() error {
	if r.st == nil {
		return nil
	}
	if err := r.st.Close(); err != nil {
		return err
	}
	if status := r.st.Status(); status != snapshot.StatusCompleted {
		return fmt.Errorf("the run is %s", status)
	}
	r.st = nil
	return nil
}
