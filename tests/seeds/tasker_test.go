package seeds

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/breaker"
)

func tasker(t *testing.T, step string, warnings ...string) config.Retry {
	t.Helper()
	r, got, err := config.ReadTasker([]byte(step))
	require.NoError(t, err)
	warned(t, got, warnings...)
	return r
}

// "max_attempts": total attempts, including the first.
func TestTaskerCountsTheFirstAttempt(t *testing.T) {
	for n := 1; n <= 5; n++ {
		r := tasker(t, fmt.Sprintf("retry:\n  retryable: true\n  max_attempts: %d\n  backoff: exponential\n", n))
		assert.Equal(t, n, runStep(t, r, times(9, errUnavailable)...).attempts)
	}
}

// "Edge Cases": test_max_attempts_zero_allows_first_execution and
// test_max_attempts_zero_blocks_after_first.
func TestTaskerRunsTheFirstAttemptOfNone(t *testing.T) {
	r := tasker(t, "retry:\n  max_attempts: 0\n", "2:17: retry.max_attempts: 0 attempts is probably a mistake")
	assert.Equal(t, 1, runStep(t, r, times(9, errUnavailable)...).attempts)
	assert.NoError(t, runStep(t, r).err)
}

// test_max_attempts_one_semantics.
func TestTaskerRunsOneAttemptOnce(t *testing.T) {
	r := tasker(t, "retry:\n  retryable: false\n  max_attempts: 1  # First attempt only\n  backoff: exponential\n")
	assert.Equal(t, 1, runStep(t, r, times(9, errUnavailable)...).attempts)
}

// "Multiple Attempts with Retries", test_max_attempts_three_progression.
func TestTaskerRetriesTwiceOfThree(t *testing.T) {
	r := tasker(t, "retry:\n  retryable: true\n  max_attempts: 3\n  backoff: exponential\n  backoff_base_ms: 1000\n")
	h := runStep(t, r, times(9, errUnavailable)...)
	assert.Equal(t, 3, h.attempts)
	assert.Equal(t, milliseconds(1000, 2000), h.delays)
	require.ErrorIs(t, h.err, core.ErrExhausted)
	assert.NoError(t, runStep(t, r, times(2, errUnavailable)...).err)
}

// test_first_attempt_ignores_retryable_flag, test_retries_require_retryable_true,
// and "retryable=false with max_attempts > 1".
func TestTaskerFirstAttemptDoesNotAskWhetherItIsRetryable(t *testing.T) {
	r := tasker(t, "retry:\n  retryable: false\n  max_attempts: 3\n", "2:3: retry: retryable is false, so max_attempts of 3 has no effect")
	assert.NoError(t, runStep(t, r).err)
	assert.Equal(t, 1, runStep(t, r, times(9, errUnavailable)...).attempts)
	assert.Equal(t, 1, runStep(t, tasker(t, "retry: {retryable: false}"), times(9, errUnavailable)...).attempts)
}

// "Unlimited Retries", with the cap of 5 minutes.
func TestTaskerRetriesNearlyForEver(t *testing.T) {
	r := tasker(t, "retry:\n  retryable: true\n  max_attempts: 999999\n  backoff: exponential\n  backoff_base_ms: 1000\n  max_backoff_ms: 300000\n")
	h := runStep(t, r, times(1000, errUnavailable)...)
	assert.Equal(t, 1001, h.attempts)
	assert.Equal(t, 5*time.Minute, h.delays[len(h.delays)-1])
}

// "Retry Eligibility Logic": the decision tree, including COALESCE.
func TestTaskerEligibility(t *testing.T) {
	for _, tt := range []struct {
		attempts, limit int
		retryable, want bool
	}{
		{0, 1, false, true},
		{1, 1, false, false},
		{0, 3, true, true},
		{1, 3, true, true},
		{2, 3, true, true},
		{3, 3, true, false},
		{4, 3, true, false},
		{0, 0, true, true},
		{1, 0, true, false},
		{0, 0, false, true},
		{1, 3, false, false},
	} {
		assert.Equal(t, tt.want, config.TaskerEligible(tt.attempts, tt.limit, tt.retryable), "%+v", tt)
	}
}

// Configurations that are read from documents follow config.TaskerEligible.
func TestTaskerConfigurationFollowsEligibility(t *testing.T) {
	for limit := range 5 {
		for _, retryable := range []bool{false, true} {
			r, _, err := config.ReadTasker(fmt.Appendf(nil, "retry: {max_attempts: %d, retryable: %v, backoff_base_ms: 0}", limit, retryable))
			require.NoError(t, err)
			want := 0
			for config.TaskerEligible(want, limit, retryable) {
				want++
			}
			assert.Equal(t, want, runStep(t, r, times(9, errUnavailable)...).attempts, "%d %v", limit, retryable)
		}
	}
}

// COALESCE(retryable, true), COALESCE(max_attempts, 3).
func TestTaskerDefaults(t *testing.T) {
	for _, step := range []string{"name: charge\n", "retry: {}\n", "retry: {backoff: exponential}\n"} {
		assert.Equal(t, 3, runStep(t, tasker(t, step), times(9, errUnavailable)...).attempts, step)
	}
}

// Every failure that is not marked as permanent is retried.
func TestTaskerRetriesWhatIsNotPermanent(t *testing.T) {
	r := tasker(t, "retry: {max_attempts: 2, backoff_base_ms: 0}")
	for _, err := range []error{errUnavailable, errBusiness, errRefused, status(404), status(429), &breaker.OpenError{Breaker: "b"}} {
		assert.Equal(t, 2, runStep(t, r, err).attempts, err)
	}
	assert.Equal(t, 1, runStep(t, r, core.Permanent(errBusiness)).attempts)
}

// With a backoff of 0, retries are immediate. Delays that a service requests are capped.
func TestTaskerCapsRetryAfter(t *testing.T) {
	r := tasker(t, "retry: {max_attempts: 4, backoff_base_ms: 0, max_backoff_ms: 2000}")
	h := runStep(t, r, core.WithRetryAfter(errUnavailable, time.Hour), core.WithRetryAfter(errUnavailable, time.Second), errUnavailable)
	require.NoError(t, h.err)
	assert.Equal(t, milliseconds(2000, 1000, 0), h.delays)
	none := tasker(t, "retry: {max_attempts: 4, max_backoff_ms: 0}")
	assert.Equal(t, []time.Duration{1}, runStep(t, none, core.WithRetryAfter(errUnavailable, time.Hour)).delays, "with a maximum delay of 0, the retry is immediate")
}

func TestTaskerDocumentsWithMistakesAreRefused(t *testing.T) {
	for step, want := range map[string]string{
		"retry: {max_attempts: -1}":     "1:23: retry.max_attempts: got -1, want 0 to 2147483647, including the first",
		"retry: {retryable: 1}":         "1:20: retry.retryable: got 1, want true or false",
		"retry: {retry_limit: 1}":       "1:9: retry.retry_limit: unknown key",
		"retry: {backoff: linear}":      `1:18: retry.backoff: got "linear", want one of exponential`,
		"retry: {backoff_base_ms: 1.5}": "1:26: retry.backoff_base_ms: got 1.5, want a number of milliseconds",
		"retry: {max_backoff_ms: -5}":   "1:25: retry.max_backoff_ms: got -5, want",
		"retry: 3":                      "1:8: retry: got 3, want a mapping",
		"retyr: {}":                     `1:1: retyr: unknown key; did you mean "retry"?`,
		"retry: {max_attempts: 1e9}":    "1:23: retry.max_attempts: got 1e9, want",
		"name: t\nsteps:\n- name: a\n  retry: {max_attempts: 1}": `3:1: steps: got the steps of a whole document, want one step of Tasker: a mapping`,
		"step_templates: [{name: a}]":                            `1:17: step_templates: got the steps of a whole document`,
		"[{name: a}]":                                            "1:1: got a list of 1, want one step of Tasker: a mapping",
	} {
		_, _, err := config.ReadTasker([]byte(step))
		refused(t, err, want)
	}
}

// Claims, retries and exhaustion are counted.
func TestTaskerCountsAreInTheReport(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		step := func(errs ...error) testkit.Handler {
			var handlers []testkit.Handler
			for _, err := range errs {
				handlers = append(handlers, testkit.Fail(err))
			}
			return testkit.Attempts(append(handlers, testkit.Succeed)...)
		}
		cfg := tasker(t, "retry: {max_attempts: 3}").Config()
		_, _ = testkit.Call(ctx, testkit.Tool(t, "fails", cfg, step(times(9, errUnavailable)...)))
		_, _ = testkit.Call(ctx, testkit.Tool(t, "recovers", cfg, step(errUnavailable)))
		_, _ = testkit.Call(ctx, testkit.Tool(t, "permanent", cfg, step(core.Permanent(errBusiness))))
		report := st.Report()
		assert.Equal(t, 6, report.Attempts, "claims")
		assert.Equal(t, 3, report.Retries, "retries")
		assert.Equal(t, 1, report.Exhausted, "exhausted")
		assert.Equal(t, 3, report.Executed, "calls")
	})
}
