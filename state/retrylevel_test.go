package state_test

import (
	"encoding/json"
	"reflect"
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

func TestRetryLevelHasEveryFieldThatIsNotAFunction(t *testing.T) {
	level := func(c core.RetryConfig) snapshot.RetryLevel {
		level, err := state.RetryLevel(c)
		require.NoError(t, err)
		data, err := json.Marshal(level)
		require.NoError(t, err)
		var again snapshot.RetryLevel
		require.NoError(t, json.Unmarshal(data, &again))
		assert.Equal(t, level, again, string(data))
		return level
	}
	defaults := level(core.RetryConfig{})
	for field := range reflect.TypeFor[core.RetryConfig]().Fields() {
		var c core.RetryConfig
		switch f := reflect.ValueOf(&c).Elem().FieldByIndex(field.Index); f.Kind() {
		case reflect.Func, reflect.Slice: // of functions
			continue
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int:
			f.SetInt(7)
		case reflect.Int64:
			f.SetInt(int64(7 * time.Second))
		case reflect.Uint8:
			f.SetUint(uint64(core.Linear))
		case reflect.Float64:
			f.SetFloat(1)
		default:
			t.Fatalf("%s is a %v", field.Name, field.Type)
		}
		changed := level(c)
		assert.NotEqual(t, defaults, changed, field.Name)
		assert.NotEqual(t, defaults.String(), changed.String(), field.Name)
	}
}
