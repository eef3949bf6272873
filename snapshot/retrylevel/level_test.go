package retrylevel_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot/retrylevel"
)

// level has no field left empty but Disabled.
var level = retrylevel.Level{
	MaxAttempts: 5, Backoff: "exponential", InitialDelay: time.Second, MaxDelay: time.Minute, Multiplier: 2, Jitter: 0.25,
	AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour, MaxRetryAfter: 5 * time.Minute, Functions: []string{"RetryOn", "StopWhen"},
}

func TestRetryLevelIsAPolicyWithoutItsFunctions(t *testing.T) {
	p, err := core.NewPolicy(core.RetryConfig{
		MaxAttempts: 5, AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour,
		RetryOn: []core.Matcher{core.MatchAny()}, StopWhen: func(core.Attempt) bool { return false },
	})
	require.NoError(t, err)
	assert.Equal(t, level, retrylevel.Of(p))
	assert.Equal(t, "5 attempts, exponential ×2 from 1s to 1m0s, jitter 0.25, Retry-After up to 5m0s, 10s for an attempt, 1h0m0s for all, with RetryOn and StopWhen", level.String())

	p, err = core.NewPolicy(core.RetryConfig{Disabled: true, AttemptTimeout: time.Second})
	require.NoError(t, err)
	assert.Equal(t, "disabled, 1s for an attempt", retrylevel.Of(p).String())
	p, err = core.NewPolicy(core.RetryConfig{MaxAttempts: core.Unlimited, Backoff: core.Constant, InitialDelay: core.NoDelay, Jitter: core.DecorrelatedJitter})
	require.NoError(t, err)
	assert.Equal(t, "attempts without end, constant from 0s to 1m0s, jitter decorrelated, Retry-After up to 5m0s", retrylevel.Of(p).String())
}

func TestRetryLevelIsInSecondsInJSON(t *testing.T) {
	data, err := json.Marshal(level)
	require.NoError(t, err)
	assert.JSONEq(t, `{"disabled":false,"max_attempts":5,"backoff":"exponential","initial_delay":1,"max_delay":60,"multiplier":2,
		"jitter":0.25,"attempt_timeout":10,"retry_timeout":3600,"max_retry_after":300,"functions":["RetryOn","StopWhen"]}`, string(data))
	var got retrylevel.Level
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, level, got)
}

func TestLevelsAreEqualFieldByField(t *testing.T) {
	levels := retrylevel.Levels{retrylevel.All: level, "tool_call": {Disabled: true, Functions: []string{}}}
	other := levels.Clone()
	other["tool_call"] = retrylevel.Level{Disabled: true}
	assert.True(t, levels.Equal(other), "no functions are no functions")
	assert.True(t, retrylevel.Levels(nil).Equal(retrylevel.Levels{}))

	other[retrylevel.All].Functions[0] = "RetryWhen"
	assert.False(t, levels.Equal(other))
	assert.Equal(t, "RetryOn", level.Functions[0], "a clone shares nothing")
	delete(other, retrylevel.All)
	assert.False(t, levels.Equal(other))
}

func TestWhatIsNotALevelIsRefused(t *testing.T) {
	var l retrylevel.Level
	assert.EqualError(t, json.Unmarshal([]byte(`{"max_attempts":"many"}`), &l), `retrylevel: max_attempts: got many, want a number or "unlimited"`)
	assert.EqualError(t, json.Unmarshal([]byte(`{"jitter":"some"}`), &l), `retrylevel: jitter: got some, want a fraction, none, full or decorrelated`)
}
