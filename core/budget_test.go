package core_test

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

// limited is a tool that always fails, and whose retries have the budget.
func limited(t testing.TB, b *core.RetryBudget, attempts *atomic.Int64) *testkit.Definition {
	retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}
	return testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &retry, RetryBudget: b}, func(context.Context, string) (string, error) {
		attempts.Add(1)
		return "", errFlaky
	})
}

func TestRetryBudgetEndsRetrying(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var attempts atomic.Int64
		b := core.NewRetryBudget(core.RetryBudgetConfig{Retries: 3, Window: 10 * time.Second})
		d := limited(t, b, &attempts)
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, d)
		testkit.Failed(t, err, record.ReasonExhausted) // with two of the three
		_, err = testkit.Call(ctx, d)
		failed := testkit.Failed(t, err, record.ReasonBudget)
		require.ErrorIs(t, err, core.ErrBudget)
		require.ErrorIs(t, err, errFlaky)
		assert.Equal(t, "the retry budget of 3 retries in 10s is used up", failed.Detail)
		_, err = testkit.Call(ctx, d)
		testkit.Failed(t, err, record.ReasonBudget)
		assert.EqualValues(t, 3+2+1, attempts.Load())
		assert.Equal(t, 3, st.Report().Exhausted)

		require.NoError(t, testkit.Pause(ctx, 11*time.Second))
		_, err = testkit.Call(ctx, d)
		testkit.Failed(t, err, record.ReasonExhausted)
	})
}

// In no window of that length there are more retries than that.
func TestRetryBudgetHoldsInEveryWindow(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		const window, most = 10 * time.Second, 7
		b := core.NewRetryBudget(core.RetryBudgetConfig{Retries: most, Window: window})
		var retries []time.Time
		retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &retry, RetryBudget: b}, func(ctx context.Context, _ string) (string, error) {
			if core.ScopeOf(ctx).Attempt() > 0 {
				retries = append(retries, time.Now())
			}
			return "", errFlaky
		})
		_, ctx := testkit.Run(t)
		for range 1000 {
			_, err := testkit.Call(ctx, d)
			require.Error(t, err)
			require.NoError(t, testkit.Pause(ctx, 137*time.Millisecond))
		}
		require.Greater(t, len(retries), 7*10)
		for i := most; i < len(retries); i++ {
			assert.Greater(t, retries[i].Sub(retries[i-most]), window)
		}
	})
}

func TestRetryBudgetGrowsWithTheCalls(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var attempts atomic.Int64
		b := core.NewRetryBudget(core.RetryBudgetConfig{Ratio: 0.1})
		d := limited(t, b, &attempts)
		_, ctx := testkit.Run(t)
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() { _, _ = testkit.Call(ctx, d) })
		}
		all.Wait()
		assert.InDelta(t, 200+20, attempts.Load(), 1)
	})
}

func TestRetryBudgetOfACallIsTakenBesideThatOfItsActor(t *testing.T) {
	var attempts atomic.Int64
	wide := core.NewRetryBudget(core.RetryBudgetConfig{Retries: 100})
	narrow := core.NewRetryBudget(core.RetryBudgetConfig{Retries: 1})
	d := limited(t, wide, &attempts)
	_, err := d.Event().WithRetryBudget(narrow).Execute(t.Context(), "in")
	testkit.Failed(t, err, record.ReasonBudget)
	assert.EqualValues(t, 2, attempts.Load())
	_, err = testkit.Call(t.Context(), d)
	testkit.Failed(t, err, record.ReasonExhausted)
}

// What a resumed run was promised it gets, and recalled calls take nothing.
func TestRetryBudgetIsThatOfTheProcess(t *testing.T) {
	var attempts atomic.Int64
	st := state.New()
	_, err := testkit.Call(st.Context(t.Context()), limited(t, core.NewRetryBudget(core.RetryBudgetConfig{Retries: 1}), &attempts))
	testkit.Failed(t, err, record.ReasonBudget)
	require.NoError(t, st.Close())
	_, err = testkit.Call(t.Context(), limited(t, core.NewRetryBudget(core.RetryBudgetConfig{Retries: 2}), &attempts))
	testkit.Failed(t, err, record.ReasonExhausted)
}

func TestRetryBudgetRefusesWhatCannotWork(t *testing.T) {
	for want, c := range map[string]core.RetryBudgetConfig{
		"Retries and Ratio are 0": {},
		"Retries is -1":           {Retries: -1},
		"Ratio is NaN":            {Ratio: math.NaN()},
		"Ratio is -1":             {Ratio: -1},
		"Window is 1ns; want 1":   {Retries: 1, Window: 1},
	} {
		assert.Contains(t, testkit.PanicText(t, func() { core.NewRetryBudget(c) }), want)
	}
}

func TestRetryBudgetSaysWhatItAllows(t *testing.T) {
	for want, c := range map[string]core.RetryBudgetConfig{
		"of 1 retry in 1m0s":                           {Retries: 1},
		"of 10 retries in 2s":                          {Retries: 10, Window: 2 * time.Second},
		"of 0.5 retries for each call in 1m0s":         {Ratio: 0.5},
		"of 3 retries, and 0.1 for each call, in 1m0s": {Retries: 3, Ratio: 0.1},
	} {
		assert.Equal(t, want, core.NewRetryBudget(c).Text())
	}
}
