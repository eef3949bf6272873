package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

// ended returns the error of a call that fails, waits, and is canceled after a second. If deadline
// is above zero, it is the call's deadline.
func ended(t *testing.T, ctx context.Context, deadline time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if deadline > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, deadline)
		defer end()
	}
	d := testkit.Tool(t, "tool", core.RetryConfig{Jitter: core.NoJitter, InitialDelay: 8 * time.Second}, testkit.Fail(errFlaky))
	stop := time.AfterFunc(time.Second, func() { cancel(errBoom) })
	defer stop.Stop()
	_, err := testkit.Call(ctx, d)
	return err
}

func TestErrorOfACancelledCallContainsTheLastError(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		_, ctx := testkit.Run(t)
		err := ended(t, ctx, 0)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errBoom)
		assert.ErrorIs(t, err, errFlaky)
		assert.Equal(t, "tool: context canceled: boom; before that: "+errFlaky.Error(), err.Error(), "text")
	})
}

func TestCancelledCallOutsideARunIsCanceledWhateverTheCause(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		err := ended(t, t.Context(), 0)
		testkit.Interrupted(t, err, record.InterruptContext)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, errBoom)
		assert.NotErrorIs(t, &core.InterruptedError{Reason: record.InterruptUser}, context.Canceled)
		assert.NotErrorIs(t, &core.InterruptedError{Reason: record.InterruptContext, Cause: context.DeadlineExceeded}, context.Canceled)
	})
}

func TestErrorNamesADeadlineThatIsAhead(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, ctx := range []context.Context{t.Context(), inRun(t)} {
			err := ended(t, ctx, 5*time.Second)
			testkit.Failed(t, err, record.ReasonDeadline)
			assert.Equal(t, "tool: deadline (the next delay of 8s would end after the deadline of the context given to this call, 5s from now): "+errFlaky.Error(), err.Error(), "text")
		}
	})
}

func inRun(t *testing.T) context.Context {
	t.Helper()
	_, ctx := testkit.Run(t)
	return ctx
}

// The text of an error is one line, since it is logged.
func TestErrorsOfCallsAreOneLine(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		cfg := timed(2)
		cfg.StopWhen = func(a core.Attempt) bool {
			if a.Number == 2 {
				panic("oops")
			}
			return false
		}
		_, err := testkit.Call(inRun(t), testkit.Tool(t, "tool", cfg, testkit.Attempts(testkit.Fail(errFlaky), testkit.Listening(time.Hour))))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q has several lines", err)
		}
		var panicked *core.PanicError
		assert.True(t, errors.As(err, &panicked), "panic")
	})
}
