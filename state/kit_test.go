package state_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/state"
)

var (
	errBoom  = errors.New("boom")
	errFlaky = core.Retryable(errors.New("flaky"))
	once     = core.RetryConfig{Disabled: true}
	steady   = core.RetryConfig{Jitter: core.NoJitter} // waits of 1s and 2s
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

// actor is one with a retry configuration of its own.
func actor(t testing.TB, name string, retry core.RetryConfig, h handler) *definition {
	t.Helper()
	d, err := core.NewDefinition(core.Spec{Kind: core.KindTool, Name: name, Retry: &retry}, h)
	if err != nil {
		t.Fatal(err)
	}
	return d
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

func succeed(context.Context, string) (string, error) { return "out", nil }

func fail(err error) handler {
	return func(context.Context, string) (string, error) { return "", err }
}

// attempts is a handler that does something else in each attempt; the last
// goes for all that follow.
func attempts(hs ...handler) handler {
	n := -1
	return func(ctx context.Context, in string) (string, error) {
		n = min(n+1, len(hs)-1)
		return hs[n](ctx, in)
	}
}

func listening(d time.Duration) handler {
	return func(ctx context.Context, _ string) (string, error) { return "out", pause(ctx, d) }
}

func deaf(d time.Duration) handler {
	return func(context.Context, string) (string, error) {
		<-time.After(d)
		return "out", nil
	}
}

// pause lets d pass, or less if ctx ends. Without a timer where d is 0: several
// goroutines of a synctest bubble that fire their own at the same time bring
// the race detector of Go 1.26 down.
func pause(ctx context.Context, d time.Duration) error {
	if d == 0 {
		return ctx.Err()
	}
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

type publish func(core.Record)

func (p publish) Publish(r core.Record) { p(r) }

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %v\nwant %v", what, got, want)
	}
}

func is(t testing.TB, err error, targets ...error) {
	t.Helper()
	for _, target := range targets {
		if !errors.Is(err, target) {
			t.Errorf("error %q (%T) is not %q", fmt.Sprint(err), err, target)
		}
	}
}

func completed(t testing.TB, out string, err error) {
	t.Helper()
	if err != nil || out != "out" {
		t.Errorf("got %q, %v; want it completed", out, err)
	}
}

func interrupted(t testing.TB, err error, reason core.InterruptReason) {
	t.Helper()
	var e *core.InterruptedError
	if !errors.As(err, &e) {
		t.Fatalf("error %q (%T) is no interrupt", fmt.Sprint(err), err)
	}
	equal(t, "reason of "+err.Error(), e.Reason, reason)
}

// told checks the records of a run, which read "kind address status", or the
// name in place of the address for values and logs with none.
func told(t testing.TB, st *state.ExecutionState, want ...string) {
	t.Helper()
	var got []string
	for _, r := range st.Records() {
		line := fmt.Sprint(r.Kind, " ", r.Status)
		if !r.Address.IsZero() {
			line = fmt.Sprint(r.Kind, " ", r.Address, " ", r.Status)
		}
		switch r.Kind {
		case core.KindValue, core.KindStepResult:
			line += " " + r.Name
		case core.KindLog:
			line += " " + strings.ToLower(r.Detail.Severity.String()) + ": " + r.Detail.Message
		}
		got = append(got, line)
	}
	equal(t, "records", "\n"+strings.Join(got, "\n"), "\n"+strings.Join(want, "\n"))
}

// kinds are the records of a kind.
func kinds(st *state.ExecutionState, k core.Kind) (found []core.Record) {
	for _, r := range st.Records() {
		if r.Kind == k {
			found = append(found, r)
		}
	}
	return found
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
