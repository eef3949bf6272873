package testkit_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

func TestBackoffOfAnHourTakesNoTime(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		retry := core.RetryConfig{InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter}
		busy := testkit.Tool(t, "busy", retry, testkit.Failing(2, core.Retryable(errors.New("busy"))))
		elapsed := testkit.Stopwatch()
		out, err := testkit.Call(ctx, busy)
		testkit.Completed(t, out, err)
		assert.Equal(t, 2*time.Hour, elapsed())
	})
}

func TestAttemptsContinueWithTheLastHandler(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		st, ctx := testkit.Run(t)
		calls := 0
		retry := core.RetryConfig{MaxAttempts: 5, InitialDelay: core.NoDelay}
		boom := core.Retryable(errors.New("boom"))
		flaky := testkit.Agent(t, "flaky", retry, testkit.Counted(&calls, testkit.Attempts(testkit.Deaf(time.Second), testkit.Fail(boom))))
		out, err := testkit.Call(ctx, flaky)
		testkit.Completed(t, out, err)
		_, err = testkit.Call(ctx, flaky)
		testkit.Failed(t, err, record.ReasonExhausted)
		assert.Equal(t, 6, calls)

		go st.Interrupt(snapshot.Stop{By: "ops"})
		_, err = testkit.Call(ctx, testkit.Tool(t, "slow", retry, testkit.Listening(time.Hour)))
		testkit.Interrupted(t, err, record.InterruptUser)
	})
}

func TestPanicTextIsTheTextOfThePanic(t *testing.T) {
	assert.Equal(t, "boom", testkit.PanicText(t, func() { panic(errors.New("boom")) }))
}
