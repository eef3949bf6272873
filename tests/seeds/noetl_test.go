package seeds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/breaker"
)

func noetl(t *testing.T, step string) config.Retry {
	t.Helper()
	r, warnings, err := config.ReadNoETL([]byte(step))
	require.NoError(t, err)
	assert.Empty(t, warnings)
	return r
}

// "Simplified Retry Configuration".
func TestNoETLRetryIsABooleanANumberOrAMapping(t *testing.T) {
	for step, want := range map[string]int{
		"retry: true": 3, "retry: 5": 5, "retry: 1": 1, "retry: {}": 3, "retry: {max_attempts: 4}": 4, "retry: false": 1,
	} {
		assert.Equal(t, want, runStep(t, noetl(t, step), times(9, errUnavailable)...).attempts, step)
	}
}

// "No retry configured, handle as terminal failure".
func TestNoETLStepWithoutRetryHasNone(t *testing.T) {
	assert.Equal(t, 1, runStep(t, noetl(t, "step: fetch_data\ntype: http\n"), times(9, errUnavailable)...).attempts)
}

// The full example: its policy, delays and conditions.
func TestNoETLFullExample(t *testing.T) {
	r := noetl(t, `
step: fetch_data
type: http
url: https://api.example.com/data
retry:
  max_attempts: 5
  initial_delay: 1.0
  backoff_multiplier: 2.0
  max_delay: 60.0
  jitter: true
  retry_when: "{{ status_code >= 500 or error != None }}"
  stop_when: "{{ status_code == 200 and success == True }}"
next:
  - step: process_data
`)
	h := runStep(t, r, times(9, errUnavailable)...)
	assert.Equal(t, 5, h.attempts)
	require.ErrorIs(t, h.err, core.ErrExhausted)
	for i, d := range h.delays {
		center := time.Second << i
		assert.InDelta(t, float64(center), float64(d), float64(center/4), "delay %d", i+1)
	}
	assert.NoError(t, runStep(t, r, errUnavailable, errUnavailable).err)
}

// "current_attempt >= max_attempts", with a default of 3.
func TestNoETLStopsAtMaxAttempts(t *testing.T) {
	h := runStep(t, noetl(t, "retry: {jitter: false}"), times(9, errUnavailable)...)
	assert.Equal(t, 3, h.attempts)
	assert.Equal(t, milliseconds(1000, 2000), h.delays, "delay=1.0s, delay=2.0s")
}

func TestNoETLDelaysAreCapped(t *testing.T) {
	h := runStep(t, noetl(t, "retry: {max_attempts: 5, initial_delay: 0.5, backoff_multiplier: 3, max_delay: 2, jitter: false}"), times(9, errUnavailable)...)
	assert.Equal(t, milliseconds(500, 1500, 2000, 2000), h.delays)
	assert.Equal(t, milliseconds(0, 0), runStep(t, noetl(t, "retry: {initial_delay: 0}"), times(9, errUnavailable)...).delays)
}

// A service cannot delay a retry by more than max_delay.
func TestNoETLCapsRetryAfter(t *testing.T) {
	later := core.WithRetryAfter(errUnavailable, time.Hour)
	for step, want := range map[string][]time.Duration{
		"retry: true": milliseconds(60_000),
		"retry: 5":    milliseconds(60_000),
		"retry: {max_attempts: 2, max_delay: 2.5, jitter: false}": milliseconds(2500),
		"retry: {max_delay: 0}":                                   {1},
	} {
		assert.Equal(t, want, runStep(t, noetl(t, step), later).delays, step)
	}
}

// A step may contain mappings and lists of its own, which are not steps.
func TestNoETLStepWithMappingsOfItsOwnIsOneStep(t *testing.T) {
	r := noetl(t, "step: a\nargs: {retry: 9}\ntask: {retry: 7}\ntasks: []\nretry: 2\n")
	assert.Equal(t, 2, runStep(t, r, times(9, errUnavailable)...).attempts)
}

// Without retry_when, every failure is retried.
func TestNoETLRetriesEveryFailure(t *testing.T) {
	for _, err := range []error{errUnavailable, errBusiness, status(404), &breaker.OpenError{Breaker: "b"}} {
		assert.Equal(t, 3, runStep(t, noetl(t, "retry: true"), times(9, err)...).attempts, err)
	}
}

func TestNoETLRetryWhenDecidesAlone(t *testing.T) {
	r := noetl(t, `retry: {max_attempts: 5, retry_when: "{{ status_code >= 500 }}"}`)
	assert.Equal(t, 5, runStep(t, r, times(9, errUnavailable)...).attempts)
	assert.Equal(t, 1, runStep(t, r, times(9, status(404))...).attempts)
	assert.Equal(t, 1, runStep(t, r, times(9, errRefused)...).attempts, "comparing a missing status_code returns false")
	h := runStep(t, r, errUnavailable, status(404))
	assert.Equal(t, 2, h.attempts)
	require.ErrorIs(t, h.err, core.ErrPermanent)
}

// The order of the conditions matters if one of them could fail. stop_when is evaluated first.
func TestNoETLStopWhenIsAskedFirst(t *testing.T) {
	r := noetl(t, `retry: {max_attempts: 9, retry_when: "{{ error != None }}", stop_when: "{{ attempt >= 2 }}"}`)
	assert.Equal(t, 2, runStep(t, r, times(9, errUnavailable)...).attempts)
	alone := noetl(t, `retry: {stop_when: "{{ 'declined' in error }}"}`)
	assert.Equal(t, 3, runStep(t, alone, times(9, errUnavailable)...).attempts)
	assert.Equal(t, 1, runStep(t, alone, times(9, errBusiness)...).attempts)
}

// The conditions are evaluated only for action_error and action_failed.
func TestNoETLNeverRetriesASuccess(t *testing.T) {
	h := runStep(t, noetl(t, `retry: {retry_when: "{{ success == True or attempt < 9 }}"}`))
	require.NoError(t, h.err)
	assert.Equal(t, 1, h.attempts)
}

// All eight variables listed in "Retry Context Variables" can be used.
func TestNoETLContextVariables(t *testing.T) {
	for _, condition := range []string{
		"result == None", "status_code == 503", "error != None", "success == False", "data == None", "attempt == 1",
		"execution_id != None", "node_id == 'step'",
	} {
		r := noetl(t, `retry: {retry_when: "{{ `+condition+` }}"}`)
		assert.NoError(t, runStep(t, r, errUnavailable).err, condition)
	}
}

func TestNoETLDocumentsWithMistakesAreRefused(t *testing.T) {
	for step, want := range map[string]string{
		"retry: 0":                               "1:8: retry: got 0, want 1 to 2147483647, including the first",
		"retry: -1":                              "1:8: retry: got -1, want",
		"retry: often":                           `1:8: retry: got "often", want true, false, a number of attempts, or a mapping`,
		"retry: {initial_delay: 1s}":             `1:24: retry.initial_delay: got "1s", want a number of seconds`,
		"retry: {max_delay: -1}":                 "1:20: retry.max_delay: got -1, want a number of seconds",
		"retry: {backoff_multiplier: 0}":         "1:29: retry.backoff_multiplier: got 0, want a number from 1 to 1000000",
		"retry: {jitter: 0.5}":                   "1:17: retry.jitter: got 0.5, want true or false",
		"retry: {retry_wen: x}":                  `1:9: retry.retry_wen: unknown key; did you mean "retry_when"?`,
		"retry: {retry_when: '{{ eror }}'}":      `1:21: retry.retry_when: in the condition, at 1:4: unknown name "eror"; did you mean "error"?`,
		"retry: {stop_when: '{{ error }}'}":      `1:20: retry.stop_when: in the condition, at 1:1: the expression is not boolean`,
		"rety: true":                             `1:1: rety: unknown key; did you mean "retry"?`,
		"workflow:\n  - step: a\n    retry: 5\n": `2:3: workflow: got the steps of a whole document, want one step of NoETL: a mapping`,
		"- step: a\n  retry: 5\n- step: b\n":     "1:1: got a list of 2, want one step of NoETL: a mapping",
		"retry: 5\ntasks: {a: {retry: 3}}":       `2:8: tasks: got the steps of a whole document`,
		"a: {retry: 5}\nb: {retry: 3}":           `2:4: b: got a second step with the key "retry", after the one at "a"`,
	} {
		_, _, err := config.ReadNoETL([]byte(step))
		refused(t, err, want)
	}
}
