package retrybudget_test

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/retrybudget"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/state"
)

var errFlaky = core.Retryable(errors.New("flaky"))

// limited returns a tool that always fails and whose retries are limited by the budget.
func limited(t testing.TB, b *retrybudget.Budget, attempts *atomic.Int64) *testkit.Definition {
	retry := core.RetryConfig{MaxAttempts: 3, InitialDelay: core.NoDelay}
	return testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &retry, Interceptors: []core.Interceptor{b.Interceptor()}}, func(context.Context, string) (string, error) {
		attempts.Add(1)
		return "", errFlaky
	})
}

func TestBudgetEndsRetrying(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var attempts atomic.Int64
		b := retrybudget.New(retrybudget.Options{Retries: 3, Window: 10 * time.Second})
		d := limited(t, b, &attempts)
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, d)
		testkit.Failed(t, err, record.ReasonExhausted) // used two of the three retries
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

// No window contains more retries than allowed.
func TestBudgetHoldsInEveryWindow(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		const window, most = 10 * time.Second, 7
		b := retrybudget.New(retrybudget.Options{Retries: most, Window: window})
		var retries []time.Time
		retry := core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool", Retry: &retry, Interceptors: []core.Interceptor{b.Interceptor()}}, func(ctx context.Context, _ string) (string, error) {
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

// A retry that is given back counts neither at the time it was taken nor later.
func TestRetryThatIsGivenBackAllowsOneOtherRetry(t *testing.T) {
	for _, after := range []time.Duration{0, 5 * time.Second, 9 * time.Second, 10 * time.Second, 11 * time.Second, time.Minute} {
		testkit.Bubble(t, func(t *testing.T) {
			retry := retrybudget.New(retrybudget.Options{Retries: 2, Window: 10 * time.Second}).Interceptor().Retry
			giveBack, refused := retry(nil, nil)
			require.NoError(t, refused)
			require.NoError(t, testkit.Pause(t.Context(), after))
			giveBack()
			var taken []time.Time
			for range 200 {
				if _, refused := retry(nil, nil); refused == nil {
					taken = append(taken, time.Now())
				}
				require.NoError(t, testkit.Pause(t.Context(), 100*time.Millisecond))
			}
			require.Len(t, taken, 4, "after %v", after)
			assert.Greater(t, taken[2].Sub(taken[0]), 10*time.Second, "after %v", after)
			assert.Greater(t, taken[3].Sub(taken[1]), 10*time.Second, "after %v", after)
		})
	}
}

func TestBudgetGrowsWithTheCalls(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var attempts atomic.Int64
		b := retrybudget.New(retrybudget.Options{Ratio: 0.1})
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

func TestBudgetOfACallIsUsedInAdditionToThatOfItsActor(t *testing.T) {
	var attempts atomic.Int64
	wide := retrybudget.New(retrybudget.Options{Retries: 100})
	narrow := retrybudget.New(retrybudget.Options{Retries: 1})
	d := limited(t, wide, &attempts)
	_, err := d.Event().WithInterceptors(narrow.Interceptor()).Execute(t.Context(), "in")
	testkit.Failed(t, err, record.ReasonBudget)
	assert.EqualValues(t, 2, attempts.Load())
	_, err = testkit.Call(t.Context(), d)
	testkit.Failed(t, err, record.ReasonExhausted)
}

// A resumed run keeps the retries that it has scheduled. Recalled calls take no retries.
func TestBudgetBelongsToTheProcess(t *testing.T) {
	var attempts atomic.Int64
	st := state.New()
	_, err := testkit.Call(st.Context(t.Context()), limited(t, retrybudget.New(retrybudget.Options{Retries: 1}), &attempts))
	testkit.Failed(t, err, record.ReasonBudget)
	require.NoError(t, st.Close())
	_, err = testkit.Call(t.Context(), limited(t, retrybudget.New(retrybudget.Options{Retries: 2}), &attempts))
	testkit.Failed(t, err, record.ReasonExhausted)
}

func TestInvalidOptionsPanic(t *testing.T) {
	for want, c := range map[string]retrybudget.Options{
		"Retries and Ratio are both 0": {},
		"Retries is -1":                {Retries: -1},
		"Ratio is NaN":                 {Ratio: math.NaN()},
		"Ratio is -1":                  {Ratio: -1},
		"Window is 1ns; want 1":        {Retries: 1, Window: 1},
	} {
		assert.Contains(t, testkit.PanicText(t, func() { retrybudget.New(c) }), want)
	}
}

func TestBudgetSaysWhatItAllows(t *testing.T) {
	for want, c := range map[string]retrybudget.Options{
		"of 1 retry in 1m0s":                           {Retries: 1},
		"of 10 retries in 2s":                          {Retries: 10, Window: 2 * time.Second},
		"of 0.5 retries for each call in 1m0s":         {Ratio: 0.5},
		"of 3 retries, and 0.1 for each call, in 1m0s": {Retries: 3, Ratio: 0.1},
	} {
		retry, refused := retrybudget.New(c).Interceptor().Retry, error(nil)
		for refused == nil {
			_, refused = retry(nil, nil)
		}
		assert.EqualError(t, refused, "the retry budget "+want+" is used up")
	}
}
