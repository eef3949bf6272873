package snapshot_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
)

// level has all fields set.
var level = snapshot.RetryLevel{
	MaxAttempts: 5, Backoff: "exponential", InitialDelay: time.Second, MaxDelay: time.Minute, Multiplier: 2, Jitter: "0.25",
	AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour, MaxRetryAfter: 5 * time.Minute, CapRetryAfter: true, MaxLosses: 7, LossesCount: true,
	Functions: []string{"RetryOn", "StopWhen"},
}

func TestRetryLevelIsALine(t *testing.T) {
	assert.Equal(t, "5 attempts, exponential ×2 from 1s to 1m0s, jitter 0.25, Retry-After cut to 5m0s, losses count, 10s per attempt, 1h0m0s in total, with RetryOn and StopWhen", level.String())
	assert.Equal(t, "1 attempt, 1 loss", snapshot.RetryLevel{MaxAttempts: 1, MaxLosses: 1}.String())
	assert.Equal(t, "1 attempt, 7 losses", snapshot.RetryLevel{MaxAttempts: 1, MaxLosses: 7}.String())
	assert.Equal(t, "1 attempt, unlimited losses", snapshot.RetryLevel{MaxAttempts: 1, MaxLosses: -1}.String())
	assert.Equal(t, "1 attempt, 1s per attempt", snapshot.RetryLevel{MaxAttempts: 1, AttemptTimeout: time.Second}.String())
}

func TestRetryLevelIsInSecondsInJSON(t *testing.T) {
	data, err := json.Marshal(level)
	require.NoError(t, err)
	assert.JSONEq(t, `{"max_attempts":5,"backoff":"exponential","initial_delay":1,"max_delay":60,"multiplier":2,
		"jitter":0.25,"attempt_timeout":10,"retry_timeout":3600,"max_retry_after":300,"cap_retry_after":true,"max_losses":7,"losses_count":true,"functions":["RetryOn","StopWhen"]}`, string(data))
	var got snapshot.RetryLevel
	require.NoError(t, json.Unmarshal(data, &got))
	assert.Equal(t, level, got)
}

func TestLevelsAreEqualFieldByField(t *testing.T) {
	levels := snapshot.RetryLevels{snapshot.RetryOfAll: level, "tool_call": {MaxAttempts: 1, Functions: []string{}}}
	other := levels.Clone()
	other["tool_call"] = snapshot.RetryLevel{MaxAttempts: 1}
	assert.True(t, levels.Equal(other), "nil and empty Functions are equal")
	assert.True(t, snapshot.RetryLevels(nil).Equal(snapshot.RetryLevels{}))

	other[snapshot.RetryOfAll].Functions[0] = "RetryWhen"
	assert.False(t, levels.Equal(other))
	assert.Equal(t, "RetryOn", level.Functions[0], "a clone shares nothing")
	delete(other, snapshot.RetryOfAll)
	assert.False(t, levels.Equal(other))
}

func TestAnInvalidLevelIsRefused(t *testing.T) {
	var l snapshot.RetryLevel
	assert.EqualError(t, json.Unmarshal([]byte(`{"max_attempts":"many"}`), &l), `snapshot: max_attempts: got many, want a number or "unlimited"`)
	assert.EqualError(t, json.Unmarshal([]byte(`{"max_losses":"many"}`), &l), `snapshot: max_losses: got many, want a number or "unlimited"`)
	assert.EqualError(t, json.Unmarshal([]byte(`{"jitter":"some"}`), &l), `snapshot: jitter: got some, want a fraction, none, full or decorrelated`)
}

func TestSnapshotWithoutRetryLevelsHasNone(t *testing.T) {
	assert.Empty(t, header(t, testkit.Stored(snapshot.StatusCompleted))["retry"])
	s := testkit.Stored(snapshot.StatusCompleted)
	s.Retry = snapshot.RetryLevels{"tool_call": level}
	assert.Contains(t, string(header(t, s)["retry"].([]byte)), "tool_call")
}

func TestKeysOfALaterVersionInARetryLevelAreSkipped(t *testing.T) {
	data := document(t, "format", "reprise-run", "version", 1, "retry", []byte(`{"all": {"max_attempts": 5, "mood": ["good"]}, "step": {}}`))
	s, err := snapshot.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, snapshot.RetryLevels{"all": {MaxAttempts: 5}, "step": {}}, s.Retry)
	for _, damaged := range []string{`{"all": 1}`, `{"all":`, `7`} {
		_, err = snapshot.Decode(document(t, "format", "reprise-run", "version", 1, "retry", []byte(damaged)))
		require.ErrorIs(t, err, snapshot.ErrCorrupt)
	}
}
