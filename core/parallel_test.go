package core_test

import (
	"context"
	"log/slog"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

func TestAThousandGoroutinesInOneRun(t *testing.T) {
	const goroutines = 1000
	var seen []record.Record // the publisher appends to it, on one goroutine at a time
	st := state.New(state.WithPublisher(testkit.Publisher(func(r record.Record) { seen = append(seen, r) })))
	ctx := st.Context(t.Context())
	child := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "child"}, testkit.Succeed)
	cfg := atOnce
	cfg.AttemptTimeout = time.Hour
	d := testkit.Agent(t, "agent", cfg, func(ctx context.Context, _ string) (string, error) {
		st.Log(slog.LevelInfo, "line", nil)
		if out, err := testkit.Call(ctx, child); err != nil {
			return out, err
		}
		if core.ScopeOf(ctx).Attempt() == 0 {
			return "", errFlaky
		}
		return "out", nil
	})
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			out, err := testkit.Call(ctx, d)
			testkit.Completed(t, out, err)
		})
	}
	wg.Wait()
	st.Close()

	records := testkit.Records(t, st)
	// Each call has five records (started, failed, retrying, started, completed), two log lines,
	// and two calls inside it with two records each. The run itself has a first and a last record.
	assert.Len(t, records, goroutines*11+2, "records")
	assert.Len(t, seen, len(records), "seen")
	roots := make(map[string]int)
	for i, r := range records {
		if r.Seq != uint64(i+1) {
			t.Fatalf("record %d has number %d", i+1, r.Seq)
		}
		if s := seen[i]; s.Seq != r.Seq || s.Status != r.Status || s.Address != r.Address || s.Attempt != r.Attempt {
			t.Fatalf("record %d was published as %+v, and is %+v", i+1, s, r)
		}
		if r.WillRetry {
			if next := records[i+1]; next.Status != record.StatusRetrying || next.Address != r.Address {
				t.Fatalf("record %d is followed by %v of %v", i+1, next.Status, next.Address)
			}
		}
		if r.Status == record.StatusCompleted && r.Kind.IsCall() {
			roots[r.Address.String()]++
		}
	}
	assert.Len(t, roots, 3*goroutines, "addresses")
	for a, n := range roots {
		if n != 1 {
			t.Errorf("%s completed %d times", a, n)
		}
	}
}

func TestParallelCallsInsideOneAttemptHaveAddressesOfTheirOwn(t *testing.T) {
	st, ctx := testkit.Run(t)
	child := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "child"}, testkit.Succeed)
	out, err := testkit.Call(ctx, testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				out, err := testkit.Call(ctx, child)
				testkit.Completed(t, out, err)
				core.AddUsage(ctx, core.Usage{InputTokens: 1})
			})
		}
		wg.Wait()
		return "out", nil
	}))
	testkit.Completed(t, out, err)
	records := calls(t, st)
	assert.Len(t, addresses(records), 201, "addresses")
	assert.Equal(t, 200, records[len(records)-1].Detail.Usage.InputTokens, "usage")
}

func TestCallWithoutATimeoutRunsOnTheGoroutineOfItsCaller(t *testing.T) {
	for _, inRun := range []bool{false, true} {
		testkit.Bubble(t, func(t *testing.T) {
			ctx := t.Context()
			if inRun {
				_, ctx = testkit.Run(t)
			}
			before, meanwhile, stack := runtime.NumGoroutine(), 0, ""
			out, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Attempts(testkit.Fail(errFlaky), func(context.Context, string) (string, error) {
				meanwhile, stack = runtime.NumGoroutine(), string(debug.Stack())
				return "out", nil
			})))
			testkit.Completed(t, out, err)
			if meanwhile > before { // meanwhile is lower if some of the goroutines counted in before have ended
				t.Errorf("in a run: %v; %d goroutines became %d", inRun, before, meanwhile)
			}
			if !strings.Contains(stack, "TestCallWithoutATimeoutRunsOnTheGoroutineOfItsCaller(") && !strings.Contains(stack, "testkit.Bubble.func1") {
				t.Errorf("in a run: %v; the handler runs elsewhere:\n%s", inRun, stack)
			}
		})
	}
}

func TestSuccessfulCallAllocatesNextToNothing(t *testing.T) {
	succeed := func(_ context.Context, in int) (int, error) { return in, nil }
	e := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool"}, succeed).Event()
	allocations := func(ctx context.Context) float64 {
		return testing.AllocsPerRun(2000, func() {
			if _, err := e.Execute(ctx, 1); err != nil {
				t.Fatal(err)
			}
		})
	}
	if n := allocations(t.Context()); n > 2 {
		t.Errorf("%v allocations outside a run; want 2", n)
	}
	_, ctx := testkit.Run(t, state.WithPublisher(testkit.Publisher(func(record.Record) {})))
	if n := allocations(ctx); n > 1 {
		t.Errorf("%v allocations in a run; want 1", n)
	}
}
