package snapshot_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/retrylevel"
)

// level has no field left empty but Disabled.
var level = retrylevel.Level{
	MaxAttempts: 5, Backoff: "exponential", InitialDelay: time.Second, MaxDelay: time.Minute, Multiplier: 2, Jitter: 0.25,
	AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour, MaxRetryAfter: 5 * time.Minute, Functions: []string{"RetryOn", "StopWhen"},
}

func TestSnapshotWithoutRetryLevelsHasNone(t *testing.T) {
	assert.Empty(t, header(t, testkit.Stored(snapshot.StatusCompleted))["retry"])
	s := testkit.Stored(snapshot.StatusCompleted)
	s.Retry = retrylevel.Levels{"tool_call": level}
	assert.Contains(t, header(t, s)["retry"], "tool_call")
}

func TestKeysOfALaterVersionInARetryLevelAreSkipped(t *testing.T) {
	data := document(t, "format", "reprise-run", "version", 1, "retry", map[string]any{
		"all": map[string]any{"max_attempts": 5, "mood": []any{"good"}}, "step": map[string]any{},
	})
	s, err := snapshot.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, retrylevel.Levels{"all": {MaxAttempts: 5}, "step": {}}, s.Retry)
	_, err = snapshot.Decode(document(t, "format", "reprise-run", "version", 1, "retry", map[string]any{"all": 1}))
	require.ErrorIs(t, err, snapshot.ErrCorrupt)
}
