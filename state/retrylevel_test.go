package state_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestRetryLevelIsAPolicyWithoutItsFunctions(t *testing.T) {
	p, err := state.RetryLevel(core.RetryConfig{
		MaxAttempts: 5, AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour,
		RetryOn: []core.Matcher{core.MatchAny()}, StopWhen: func(core.Attempt) bool { return false },
	})
	require.NoError(t, err)
	assert.Equal(t, snapshot.RetryLevel{
		MaxAttempts: 5, Backoff: "exponential", InitialDelay: time.Second, MaxDelay: time.Minute, Multiplier: 2, Jitter: "0.25",
		AttemptTimeout: 10 * time.Second, RetryTimeout: time.Hour, MaxRetryAfter: 5 * time.Minute, Functions: []string{"RetryOn", "StopWhen"},
	}, p)

	p, err = state.RetryLevel(core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second})
	require.NoError(t, err)
	assert.Equal(t, "1 attempt, 1s per attempt", p.String())
	p, err = state.RetryLevel(core.RetryConfig{MaxAttempts: core.Unlimited, Backoff: core.Constant, InitialDelay: core.NoDelay, Jitter: core.DecorrelatedJitter})
	require.NoError(t, err)
	assert.Equal(t, "unlimited attempts, constant from 0s to 1m0s, jitter decorrelated, Retry-After up to 5m0s", p.String())
}
