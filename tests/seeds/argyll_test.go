package seeds

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/config"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/breaker"
	"github.com/reprise-go/reprise/record"
)

// engine returns the global defaults of the tests.
func engine(t *testing.T) config.ArgyllDefaults {
	t.Helper()
	d, err := config.ArgyllEnvironment(env(map[string]string{
		"RETRY_MAX_RETRIES": "2", "RETRY_BACKOFF": "100", "RETRY_MAX_BACKOFF": "5000", "RETRY_BACKOFF_TYPE": "linear",
	}))
	require.NoError(t, err)
	return d
}

func env(m map[string]string) func(string) string { return func(name string) string { return m[name] } }

func argyll(t *testing.T, version config.ArgyllVersion, step string) config.Retry {
	t.Helper()
	r, warnings, err := config.ReadArgyll([]byte(step), version, engine(t))
	require.NoError(t, err)
	assert.Empty(t, warnings)
	return r
}

// "When retries are scheduled": the same in both versions.
func TestArgyllRetriesTransportErrorsAnd5xxAlone(t *testing.T) {
	for version, step := range map[config.ArgyllVersion]string{
		config.ArgyllV1: `{"work_config": {"max_retries": 1, "backoff": 10, "max_backoff": 100, "backoff_type": "fixed"}}`,
		config.ArgyllV2: `{"work_config": {"max_retries": 1, "init_backoff": 10, "max_backoff": 100, "backoff_type": "fixed"}}`,
	} {
		r := argyll(t, version, step)
		for name, err := range map[string]error{
			"connection error": errRefused, "timeout": timeout{}, "500": status(500), "502": status(502), "503": status(503), "599": status(599),
		} {
			assert.Equal(t, 2, runStep(t, r, err).attempts, name)
		}
		for name, err := range map[string]error{
			"400": status(400), "404": status(404), "408": status(408), "422": status(422), "425": status(425), "429": status(429),
			"success: false": errBusiness, // a permanent failure, work_failed
			"permanent":      core.Permanent(errUnavailable),
		} {
			h := runStep(t, r, err)
			assert.Equal(t, 1, h.attempts, name)
			require.ErrorIs(t, h.err, core.ErrPermanent, name)
		}
		assert.NoError(t, runStep(t, r).err, "success: true completes the step")
	}
}

type timeout struct{}

func (timeout) Error() string   { return "i/o timeout" }
func (timeout) Timeout() bool   { return true }
func (timeout) Temporary() bool { return true }

// "Configuration" of version 1: the meaning of max_retries.
func TestArgyllV1CountsRetries(t *testing.T) {
	step := func(retries string) string {
		return `{"work_config": {"max_retries": ` + retries + `, "backoff": 1, "max_backoff": 1, "backoff_type": "fixed"}}`
	}
	assert.Equal(t, 1, runStep(t, argyll(t, config.ArgyllV1, step("0")), times(9, errUnavailable)...).attempts, "0 disables retries")
	h := runStep(t, argyll(t, config.ArgyllV1, step("3")), times(9, errUnavailable)...)
	assert.Equal(t, 4, h.attempts, "n retries after the first attempt")
	require.ErrorIs(t, h.err, core.ErrExhausted)
	assert.Equal(t, 501, runStep(t, argyll(t, config.ArgyllV1, step("-1")), times(500, errUnavailable)...).attempts, "-1 is unlimited")
}

func TestArgyllV1WithoutWorkConfigHasTheGlobalDefaults(t *testing.T) {
	h := runStep(t, argyll(t, config.ArgyllV1, `{"id": "charge-card", "type": "sync"}`), times(9, errUnavailable)...)
	assert.Equal(t, 3, h.attempts)
	assert.Equal(t, milliseconds(100, 200), h.delays)
}

func TestArgyllV1WithoutMaxRetriesHasNone(t *testing.T) {
	for _, step := range []string{`{"work_config": {}}`, `{"work_config": {"backoff": 10, "backoff_type": "fixed"}}`} {
		assert.Equal(t, 1, runStep(t, argyll(t, config.ArgyllV1, step), times(9, errUnavailable)...).attempts, step)
	}
}

// Version 1 does not say what a missing backoff means.
func TestArgyllV1SaysThatAMissingBackoffIsNotDefined(t *testing.T) {
	r, warnings, err := config.ReadArgyll([]byte(`{"work_config": {"max_retries": 1}}`), config.ArgyllV1, engine(t))
	require.NoError(t, err)
	warned(t, warnings, "version 1 of Argyll does not define missing keys")
	assert.Equal(t, milliseconds(100), runStep(t, r, errUnavailable).delays)
}

// "Configuration" of version 2: zero values mean the defaults.
func TestArgyllV2HasTheGlobalDefaultForWhatIsZero(t *testing.T) {
	for _, step := range []string{
		`{"id": "a"}`, `{"work_config": {}}`,
		`{"work_config": {"max_retries": 0, "init_backoff": 0, "max_backoff": 0, "backoff_type": ""}}`,
	} {
		h := runStep(t, argyll(t, config.ArgyllV2, step), times(9, errUnavailable)...)
		assert.Equal(t, 3, h.attempts, step)
		assert.Equal(t, milliseconds(100, 200), h.delays, step)
	}
	h := runStep(t, argyll(t, config.ArgyllV2, `{"work_config": {"max_retries": 1, "backoff_type": "fixed"}}`), times(9, errUnavailable)...)
	assert.Equal(t, 2, h.attempts, "each field has its own default")
	assert.Equal(t, milliseconds(100), h.delays)
	assert.Equal(t, 501, runStep(t, argyll(t, config.ArgyllV2, `{"work_config": {"max_retries": -1}}`), times(500, errUnavailable)...).attempts, "-1 is unlimited")
}

// The example of version 2, with its endpoint, timeout and delays.
func TestArgyllV2Example(t *testing.T) {
	r := argyll(t, config.ArgyllV2, `{
  "id": "charge-card",
  "type": "async",
  "http": { "endpoint": "https://api.example.com/payments", "timeout": 5000 },
  "work_config": {
    "max_retries": 3,
    "init_backoff": 1000,
    "max_backoff": 30000,
    "backoff_type": "exponential"
  }
}`)
	assert.Equal(t, 5*time.Second, r.Config().AttemptTimeout)
	h := runStep(t, r, times(9, errUnavailable)...)
	assert.Equal(t, 4, h.attempts)
	assert.Equal(t, milliseconds(1000, 2000, 4000), h.delays)
	require.ErrorIs(t, h.err, core.ErrExhausted, "permanent failure when max_retries is reached")
	assert.NoError(t, runStep(t, r, times(3, errUnavailable)...).err)
}

// "Backoff strategies".
func TestArgyllBackoffIsFixedLinearOrExponential(t *testing.T) {
	for kind, want := range map[string][]time.Duration{
		"fixed":       milliseconds(100, 100, 100, 100, 100),
		"linear":      milliseconds(100, 200, 300, 350, 350),
		"exponential": milliseconds(100, 200, 350, 350, 350),
	} {
		v1 := argyll(t, config.ArgyllV1, `{"work_config": {"max_retries": 5, "backoff": 100, "max_backoff": 350, "backoff_type": "`+kind+`"}}`)
		assert.Equal(t, want, runStep(t, v1, times(9, errUnavailable)...).delays, kind)
		v2 := argyll(t, config.ArgyllV2, `{"work_config": {"max_retries": 5, "init_backoff": 100, "max_backoff": 350, "backoff_type": "`+kind+`"}}`)
		assert.Equal(t, want, runStep(t, v2, times(9, errUnavailable)...).delays, kind)
	}
}

// Argyll does not read Retry-After, so no service may delay a retry by more than
// max_backoff.
func TestArgyllCapsRetryAfter(t *testing.T) {
	asked := []error{core.WithRetryAfter(errUnavailable, time.Hour), core.WithRetryAfter(errUnavailable, 300*time.Millisecond), errUnavailable}
	v1 := argyll(t, config.ArgyllV1, `{"work_config": {"max_retries": 3, "backoff": 100, "max_backoff": 2000, "backoff_type": "fixed"}}`)
	assert.Equal(t, milliseconds(2000, 300, 100), runStep(t, v1, asked...).delays)
	v2 := argyll(t, config.ArgyllV2, `{"work_config": {"max_retries": 3, "init_backoff": 100, "max_backoff": 2000, "backoff_type": "fixed"}}`)
	assert.Equal(t, milliseconds(2000, 300, 100), runStep(t, v2, asked...).delays)
	assert.Equal(t, milliseconds(5000), runStep(t, argyll(t, config.ArgyllV2, `{}`), asked[0]).delays, "the engine's max_backoff")
	none := argyll(t, config.ArgyllV1, `{"work_config": {"max_retries": 3, "backoff": 100, "max_backoff": 0, "backoff_type": "fixed"}}`)
	assert.Less(t, runStep(t, none, asked[0]).delays[0], time.Millisecond, "with a maximum delay of 0, the retry is immediate")
}

// If an open circuit breaker refuses an attempt, the attempt did not reach the step, so it is not a
// permanent failure of the work item.
func TestArgyllRetriesWhatABreakerRefuses(t *testing.T) {
	r := argyll(t, config.ArgyllV2, `{"work_config": {"max_retries": 2, "init_backoff": 100, "max_backoff": 2000, "backoff_type": "fixed"}}`)
	h := runStep(t, r, &breaker.OpenError{Breaker: "b", After: time.Second}, errUnavailable)
	require.NoError(t, h.err)
	assert.Equal(t, milliseconds(1000, 100), h.delays)
}

func TestArgyllVersionsDoNotReadEachOther(t *testing.T) {
	_, _, err := config.ReadArgyll([]byte(`{"work_config": {"init_backoff": 1}}`), config.ArgyllV1, engine(t))
	refused(t, err, `1:34: work_config.init_backoff: in version 1 of Argyll the key is "backoff"`)
	_, _, err = config.ReadArgyll([]byte(`{"work_config": {"backoff": 1}}`), config.ArgyllV2, engine(t))
	refused(t, err, `1:29: work_config.backoff: in version 2 of Argyll the key is "init_backoff"`)
	_, _, err = config.ReadArgyll([]byte(`{}`), 3, engine(t))
	assert.EqualError(t, err, "config: ReadArgyll: got version 3, want ArgyllV1 or ArgyllV2")
}

func TestArgyllDocumentsWithMistakesAreRefused(t *testing.T) {
	for step, want := range map[string]string{
		`{"work_config": {"max_retries": -2}}`:      "1:33: work_config.max_retries: got -2, want -1 for no limit, or 0 to 2147483646",
		`{"work_config": {"max_retries": "3"}}`:     `1:33: work_config.max_retries: got "3", want -1`,
		`{"work_config": {"init_backoff": -1}}`:     "1:34: work_config.init_backoff: got -1, want a number of milliseconds",
		`{"work_config": {"init_backoff": 1.5}}`:    "1:34: work_config.init_backoff: got 1.5, want a number of milliseconds",
		`{"work_config": {"max_backoff": 1e18}}`:    "1:33: work_config.max_backoff: got 1e18, want",
		`{"work_config": {"backoff_type": "expo"}}`: `1:34: work_config.backoff_type: got "expo", want one of fixed, linear, exponential`,
		`{"work_config": {"max_retry": 1}}`:         `1:18: work_config.max_retry: unknown key`,
		`{"work_config": 3}`:                        "1:17: work_config: got 3, want a mapping",
		`{"work_confg": {}}`:                        `1:2: work_confg: unknown key; did you mean "work_config"?`,
		`{"http": {"timeout": "5s"}}`:               `1:22: http.timeout: got "5s", want a number of milliseconds`,
		`[]`:                                        "1:1: got a list of 0, want one step of Argyll: a mapping",
		`{"goals": ["a"], "steps": [{"id": "a", "work_config": {"max_retries": 1}}]}`: `1:27: steps: got the steps of a whole document, want one step of Argyll: a mapping`,
		`{"steps": {"a": {"work_config": {"max_retries": 1}}}}`:                       `1:11: steps: got the steps of a whole document`,
		`{"a": {"work_config": {}}, "b": {"work_config": {}}}`:                        `1:33: b: got a second step with the key "work_config", after the one at "a", want one step of Argyll: a mapping`,
	} {
		r, warnings, err := config.ReadArgyll([]byte(step), config.ArgyllV2, engine(t))
		refused(t, err, want)
		assert.Zero(t, r, step)
		assert.Empty(t, warnings, step)
	}
}

// A warning names the configuration that has no effect.
func TestArgyllWarningsSayWhatIsNotKept(t *testing.T) {
	_, warnings, err := config.ReadArgyll([]byte(`{"compensate": {"endpoint": "http://x"}}`), config.ArgyllV2, engine(t))
	require.NoError(t, err)
	warned(t, warnings, "1:16: compensate: Argyll calls this endpoint")
	_, warnings, err = config.ReadArgyll([]byte(`{}`), config.ArgyllV2, config.ArgyllDefaults{})
	require.NoError(t, err)
	warned(t, warnings, "RETRY_MAX_RETRIES", "RETRY_BACKOFF", "RETRY_MAX_BACKOFF", "RETRY_BACKOFF_TYPE")
}

func TestArgyllEnvironmentIsRead(t *testing.T) {
	d := engine(t)
	assert.Equal(t, 2, *d.MaxRetries)
	assert.Equal(t, 100*time.Millisecond, *d.Backoff)
	assert.Equal(t, 5*time.Second, *d.MaxBackoff)
	assert.Equal(t, core.Linear, *d.BackoffType)
	d, err := config.ArgyllEnvironment(env(nil))
	require.NoError(t, err)
	assert.Equal(t, config.ArgyllDefaults{}, d)
	_, err = config.ArgyllEnvironment(env(map[string]string{
		"RETRY_MAX_RETRIES": "many", "RETRY_BACKOFF": "-1", "RETRY_MAX_BACKOFF": "99999999999999999999", "RETRY_BACKOFF_TYPE": "cubic",
	}))
	assert.EqualError(t, err, `RETRY_BACKOFF: got "-1", want a number of milliseconds, 0 to 315360000000
RETRY_BACKOFF_TYPE: got "cubic", want one of fixed, linear, exponential
RETRY_MAX_BACKOFF: got "99999999999999999999", want a number of milliseconds, 0 to 315360000000
RETRY_MAX_RETRIES: got "many", want -1 for no limit, or 0 to 2147483646`)
}

// Receipt tokens: all attempts of a work item have the same token, which no other work item has.
func TestArgyllReceiptToken(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		var tokens []string
		step := testkit.Tool(t, "step", core.RetryConfig{MaxAttempts: 3}, func(ctx context.Context, _ string) (string, error) {
			token, err := core.IdempotencyKey(ctx)
			require.NoError(t, err)
			tokens = append(tokens, token)
			if len(tokens)%3 != 0 {
				return "", errUnavailable
			}
			return "out", nil
		})
		for range 2 {
			_, err := testkit.Call(ctx, step)
			require.NoError(t, err)
		}
		require.Len(t, tokens, 6)
		assert.Equal(t, []string{tokens[0], tokens[0], tokens[0], tokens[3], tokens[3], tokens[3]}, tokens)
		assert.NotEqual(t, tokens[0], tokens[3])
	})
	_, err := core.IdempotencyKey(t.Context())
	assert.ErrorIs(t, err, core.ErrNoRun)
}

// A late duplicate of an outcome is ignored.
func TestArgyllLateOutcomeIsDropped(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		late := testkit.Attempts(func(context.Context, string) (string, error) {
			<-time.After(time.Minute) // it continues after the end of its attempt
			return "late", nil
		}, testkit.Succeed)
		out, err := testkit.Call(ctx, testkit.Tool(t, "step", core.RetryConfig{AttemptTimeout: time.Second}, late))
		testkit.Completed(t, out, err)
		<-time.After(time.Hour)
		outcomes := 0
		for _, r := range testkit.Records(t, st) {
			if r.IsOutcome() && r.Kind == record.KindTool {
				outcomes++
			}
		}
		assert.Equal(t, 1, outcomes)
	})
}
