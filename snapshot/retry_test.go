package snapshot_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
)

// level has no field left empty but Disabled.
var level = snapshot.RetryLevel{
	MaxAttempts: 5, Backoff: "exponential", InitialDelay: time.Second, MaxDelay: time.Minute, Multiplier: 2, Jitter: 0.25,
	AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour, MaxRetryAfter: 5 * time.Minute, Functions: []string{"RetryOn", "StopWhen"},
}

func TestRetryLevelIsAPolicyWithoutItsFunctions(t *testing.T) {
	p, err := core.NewPolicy(core.RetryConfig{
		MaxAttempts: 5, AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour,
		RetryOn: []core.Matcher{core.MatchAny()}, StopWhen: func(core.Attempt) bool { return false },
	})
	require.NoError(t, err)
	assert.Equal(t, level, snapshot.RetryLevelOf(p))
	assert.Equal(t, "5 attempts, exponential ×2 from 1s to 1m0s, jitter 0.25, Retry-After up to 5m0s, 10s for an attempt, 1h0m0s for all, with RetryOn and StopWhen", level.String())

	p, err = core.NewPolicy(core.RetryConfig{Disabled: true, AttemptTimeout: time.Second})
	require.NoError(t, err)
	assert.Equal(t, "disabled, 1s for an attempt", snapshot.RetryLevelOf(p).String())
	p, err = core.NewPolicy(core.RetryConfig{MaxAttempts: core.Unlimited, Backoff: core.Constant, InitialDelay: core.NoDelay, Jitter: core.DecorrelatedJitter})
	require.NoError(t, err)
	assert.Equal(t, "attempts without end, constant from 0s to 1m0s, jitter decorrelated, Retry-After up to 5m0s", snapshot.RetryLevelOf(p).String())
}

func TestRetryLevelIsInSecondsInJSON(t *testing.T) {
	data, err := json.Marshal(level)
	require.NoError(t, err)
	assert.JSONEq(t, `{"disabled":false,"max_attempts":5,"backoff":"exponential","initial_delay":1,"max_delay":60,"multiplier":2,
		"jitter":0.25,"attempt_timeout":10,"retry_timeout":3600,"max_retry_after":300,"functions":["RetryOn","StopWhen"]}`, string(data))
	var got snapshot.RetryLevel
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, level, got)
}

func TestSnapshotWithoutRetryLevelsHasNone(t *testing.T) {
	assert.Empty(t, header(t, testkit.Stored(snapshot.StatusCompleted))["retry"])
	s := testkit.Stored(snapshot.StatusCompleted)
	s.Retry = snapshot.RetryLevels{"tool_call": level}
	assert.Contains(t, header(t, s)["retry"], "tool_call")
}

func TestKeysOfALaterVersionInARetryLevelAreSkipped(t *testing.T) {
	data := document(t, "format", "reprise-run", "version", 1, "retry", map[string]any{
		"all": map[string]any{"max_attempts": 5, "mood": []any{"good"}}, "step": map[string]any{},
	})
	s, err := snapshot.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, snapshot.RetryLevels{"all": {MaxAttempts: 5}, "step": {}}, s.Retry)
	_, err = snapshot.Decode(document(t, "format", "reprise-run", "version", 1, "retry", map[string]any{"all": 1}))
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
}
