package core_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

var (
	errBoom  = errors.New("boom")                               // of no class: not retried
	errFlaky = fmt.Errorf("dial tcp: %w", syscall.ECONNREFUSED) // transient
	steady   = core.RetryConfig{Jitter: core.NoJitter}          // three attempts, waits of 1s and 2s
	once     = core.RetryConfig{Disabled: true}                 //
	atOnce   = core.RetryConfig{InitialDelay: core.NoDelay}     // three attempts, no waits
	twice    = core.RetryConfig{Jitter: core.NoJitter, MaxAttempts: 2}
)

type (
	definition = core.Definition[string, string]
	handler    = core.Handler[string, string]
)

// bubble runs f on a clock of its own, and in the end gives handlers that do
// not listen the time to return.
func bubble(t *testing.T, f func(*testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer func() { <-time.After(24 * time.Hour) }()
		f(t)
	})
}

// define is NewDefinition for specs that are right.
func define[In, Out any](t testing.TB, spec core.Spec, h core.Handler[In, Out]) *core.Definition[In, Out] {
	t.Helper()
	d, err := core.NewDefinition(spec, h)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// tool is a tool of the name "tool" with a retry configuration of its own.
func tool(t testing.TB, retry core.RetryConfig, h handler) *definition {
	t.Helper()
	return define(t, core.Spec{Kind: core.KindTool, Name: "tool", Retry: &retry}, h)
}

// agent is an agent of the name "agent" with a retry configuration of its own.
func agent(t testing.TB, retry core.RetryConfig, h handler) *definition {
	t.Helper()
	return define(t, core.Spec{Kind: core.KindAgent, Name: "agent", Retry: &retry}, h)
}

// run is a run in memory, closed in the end, and a context of it.
func run(t testing.TB, options ...state.Option) (*state.ExecutionState, context.Context) {
	t.Helper()
	st := state.New(options...)
	t.Cleanup(func() { st.Close() })
	return st, st.Context(t.Context())
}

func call(ctx context.Context, d *definition) (string, error) { return d.Event().Execute(ctx, "in") }

// calling is a branch that calls d.
func calling(d *definition) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) { return call(ctx, d) }
}

// group makes the branches one after the other, and all of them.
func group(ctx context.Context, name string, branches ...func(context.Context) (string, error)) ([]string, error) {
	return actors.Parallel(ctx, actors.Group{Name: name, Workers: 1, CollectAll: true}, branches...)
}

// Handlers.

func succeed(context.Context, string) (string, error) { return "out", nil }

// fail always fails.
func fail(err error) handler {
	return func(context.Context, string) (string, error) { return "", err }
}

// failing fails the given number of times and then succeeds.
func failing(times int, err error) handler {
	var n atomic.Int64
	return func(context.Context, string) (string, error) {
		if n.Add(1) <= int64(times) {
			return "", err
		}
		return "out", nil
	}
}

// counted counts how often h is called.
func counted(n *int, h handler) handler {
	return func(ctx context.Context, in string) (string, error) {
		*n++
		return h(ctx, in)
	}
}

// listening takes d, or until its context ends.
func listening(d time.Duration) handler {
	return func(ctx context.Context, _ string) (string, error) {
		if err := pause(ctx, d); err != nil {
			return "", err
		}
		return "out", nil
	}
}

// deaf takes d whatever becomes of its context.
func deaf(d time.Duration) handler {
	return func(context.Context, string) (string, error) {
		<-time.After(d)
		return "out", nil
	}
}

// attempts is a handler that does something else in each attempt; the last
// goes for all that follow.
func attempts(hs ...handler) handler {
	var n atomic.Int64
	return func(ctx context.Context, in string) (string, error) {
		return hs[min(int(n.Add(1)), len(hs))-1](ctx, in)
	}
}

// pause lets d pass, or less if ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func stopwatch() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// publish is a publisher.
// inline is the size of the largest output that is kept in its record.
const inline = 64 << 10

type publish func(core.Record)

func (p publish) Publish(r core.Record) { p(r) }

// on publishes to f the first record of a status.
func on(status core.Status, f func(core.Record)) publish {
	done := false
	return func(r core.Record) {
		if r.Kind.IsCall() && r.Status == status && !done {
			done = true
			f(r)
		}
	}
}

// Checks.

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

// is checks that err is each of the targets.
func is(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %q (%T) is not %q", fmt.Sprint(err), err, target)
		}
	}
}

func isNot(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if errors.Is(err, target) {
			t.Errorf("error %q (%T) is %q", fmt.Sprint(err), err, target)
		}
	}
}

// failed checks that err is a CallError with the reason, and returns it.
func failed(t testing.TB, err error, reason core.Reason) *core.CallError {
	t.Helper()
	var e *core.CallError
	if !errors.As(err, &e) {
		t.Fatalf("error %q (%T) is no *core.CallError", fmt.Sprint(err), err)
	}
	equal(t, "reason of "+err.Error(), e.Reason, reason)
	return e
}

// interrupted checks that err is an InterruptedError with the reason, and no
// failure.
func interrupted(t testing.TB, err error, reason core.InterruptReason) *core.InterruptedError {
	t.Helper()
	e, ok := err.(*core.InterruptedError) //nolint:errorlint // the call's own, not one that it wraps
	if !ok {
		t.Fatalf("error %q (%T) is no *core.InterruptedError", fmt.Sprint(err), err)
	}
	equal(t, "reason of "+err.Error(), e.Reason, reason)
	is(t, err, core.ErrInterrupted)
	return e
}

func completed(t testing.TB, out string, err error) {
	t.Helper()
	if err != nil || out != "out" {
		t.Errorf("got %q, %v; want it completed", out, err)
	}
}

// told checks the records of the calls of a run. They read
//
//	started(0) failed(0,retry,connection) retrying(1,1s) started(1) completed(1)
//
// with the stage where it is not the handler (@entry), and each with its
// address before it if there is more than one.
func told(t testing.TB, st *state.ExecutionState, want ...string) {
	t.Helper()
	if got, want := story(st), strings.Join(want, " "); got != want {
		t.Errorf("records:\n got %s\nwant %s", strings.ReplaceAll(got, " ", "\n     "), strings.ReplaceAll(want, " ", "\n     "))
	}
}

// toldInAnyOrder is told for what happens in parallel.
func toldInAnyOrder(t testing.TB, st *state.ExecutionState, want ...string) {
	t.Helper()
	sorted := func(s string) string { return strings.Join(slices.Sorted(slices.Values(strings.Fields(s))), "\n") }
	equal(t, "records", sorted(story(st)), sorted(strings.Join(want, " ")))
}

func story(st *state.ExecutionState) string {
	records := calls(st)
	several := slices.ContainsFunc(records, func(r core.Record) bool { return r.Address != records[0].Address })
	words := make([]string, len(records))
	for i, r := range records {
		words[i] = brief(r)
		if several {
			words[i] = r.Address.String() + ":" + words[i]
		}
	}
	return strings.Join(words, " ")
}

// calls are the records about calls.
func calls(st *state.ExecutionState) []core.Record {
	return slices.DeleteFunc(st.Records(), func(r core.Record) bool { return !r.Kind.IsCall() })
}

func brief(r core.Record) string {
	facts := []string{fmt.Sprint(r.Attempt)}
	switch r.Status {
	case core.StatusFailed:
		if r.WillRetry {
			facts = append(facts, "retry")
		} else {
			facts = append(facts, r.Reason.String())
		}
		facts = append(facts, r.Class.String())
	case core.StatusRetrying:
		facts = append(facts, r.Delay.String())
		if r.DelaySource != core.SourceBackoff {
			facts = append(facts, r.DelaySource.String())
		}
	case core.StatusInterrupted:
		facts = append(facts, string(r.Interrupt().Reason))
	}
	if r.Status != core.StatusRetrying && r.Stage != core.StageNone && r.Stage != core.StageHandler {
		facts = append(facts, "@"+r.Stage.String())
	}
	return fmt.Sprintf("%v(%s)", r.Status, strings.Join(facts, ","))
}

// delays are those of the waits of a run, in order.
func delays(st *state.ExecutionState) (ds []time.Duration) {
	for _, r := range calls(st) {
		if r.Status == core.StatusRetrying {
			ds = append(ds, r.Delay)
		}
	}
	return ds
}
