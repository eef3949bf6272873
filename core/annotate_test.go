package core_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
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

// ends returns the attributes of the records that end attempts.
func ends(records []record.Record) (ends []map[string]any) {
	for _, r := range records {
		if r.Kind.IsCall() && r.Status != record.StatusStarted && r.Status != record.StatusRetrying {
			var attributes map[string]any
			if r.Detail != nil {
				attributes = r.Detail.Metadata
			}
			ends = append(ends, attributes)
		}
	}
	return ends
}

func TestAttributesAreInTheRecordThatEndsTheirAttempt(t *testing.T) {
	d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &atOnce}, func(ctx context.Context, _ string) (string, error) {
		attempt := core.ScopeOf(ctx).Attempt()
		core.Annotate(ctx, "response_id", fmt.Sprint("r", attempt))
		if attempt == 0 {
			core.Annotate(ctx, "only", "the first")
			return "", errFlaky
		}
		return "out", nil
	})
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "run")
	require.NoError(t, err)
	out, err := testkit.Call(st.Context(t.Context()), d)
	testkit.Completed(t, out, err)
	require.NoError(t, st.Close())
	want := []map[string]any{{"response_id": "r0", "only": "the first"}, {"response_id": "r1"}}
	assert.Equal(t, want, ends(testkit.LoadRun(t, store, "run").Records), "attributes read from the store")
}

func TestAttributesOfAnInterruptedAttemptAreKept(t *testing.T) {
	st, ctx := testkit.Run(t)
	d := testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		core.Annotate(ctx, "provider", "a")
		st.Interrupt(snapshot.Stop{})
		<-ctx.Done()
		return "", ctx.Err()
	})
	_, err := testkit.Call(ctx, d)
	require.ErrorIs(t, err, core.ErrInterrupted)
	assert.Equal(t, []map[string]any{{"provider": "a"}}, ends(testkit.Records(t, st)))
}

func TestAttributesOfInterceptorsBelongToTheAttempt(t *testing.T) {
	var late *core.CallInfo
	st, ctx := testkit.Run(t, state.WithInterceptors(around(func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		late = call
		call.Annotate("before", 1)
		assert.False(t, call.Made())
		err := next(ctx)
		assert.True(t, call.Made())
		call.AddUsage(core.Usage{InputTokens: 1})
		call.Annotate("after", call.Usage().InputTokens)
		return err
	})))
	d := testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		core.AddUsage(ctx, core.Usage{InputTokens: 7})
		return "out", nil
	})
	out, err := testkit.Call(ctx, d)
	testkit.Completed(t, out, err)
	late.Annotate("late", true)
	assert.Equal(t, []map[string]any{{"before": int64(1), "after": int64(8)}}, ends(testkit.Records(t, st)))
}

type word string

func TestAttributesAreBoundedAndPlain(t *testing.T) {
	st, ctx := testkit.Run(t)
	out, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, func(ctx context.Context, _ string) (string, error) {
		for key, value := range map[string]any{
			"text": word("a"), "yes": true, "int": int8(-3), "uint": uint16(3), "huge": uint64(math.MaxUint64),
			"half": float32(0.5), "took": 1500 * time.Millisecond, "nan": math.NaN(), "err": errors.New("boom"), "nil": nil,
			"long": strings.Repeat("ä", 2000), strings.Repeat("k", 100): 1, "": "without a key",
		} {
			core.Annotate(ctx, key, value)
		}
		for i := range 100 {
			core.Annotate(ctx, fmt.Sprint("more", i), i)
		}
		core.Annotate(ctx, "yes", false)
		return "out", nil
	}))
	testkit.Completed(t, out, err)
	got := ends(testkit.Records(t, st))[0]
	assert.Len(t, got, 32)
	for key, want := range map[string]any{
		"text": "a", "yes": false, "int": int64(-3), "uint": int64(3), "huge": uint64(math.MaxUint64),
		"half": 0.5, "took": 1.5, "nan": "NaN", "err": "boom", "nil": "<nil>",
		"long": strings.Repeat("ä", 1023) + "…", strings.Repeat("k", 63) + "…": int64(1), "more0": int64(0),
	} {
		assert.Equal(t, want, got[key], key)
	}
	core.Annotate(t.Context(), "outside", "a run") // does nothing
}
