package core_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/reprise-go/reprise/core"
)

// ended is the error of a call that fails and waits, and is cancelled after a
// second; with a deadline of its own if that is above zero.
func ended(t *testing.T, ctx context.Context, deadline time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if deadline > 0 {
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, deadline)
		defer end()
	}
	d := tool(t, core.RetryConfig{Jitter: core.NoJitter, InitialDelay: 8 * time.Second}, fail(errFlaky))
	stop := time.AfterFunc(time.Second, func() { cancel(errBoom) })
	defer stop.Stop()
	_, err := call(ctx, d)
	return err
}

func TestErrorOfACallThatWasCancelledTellsWhatCameBefore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		_, ctx := run(t)
		err := ended(t, ctx, 0)
		is(t, err, context.Canceled, errBoom, errFlaky)
		equal(t, "text", err.Error(), "tool: canceled: boom; before that: "+errFlaky.Error())
	})
}

func TestCancelledCallOutsideARunIsCanceledWhateverTheCause(t *testing.T) {
	bubble(t, func(t *testing.T) {
		err := ended(t, t.Context(), 0)
		interrupted(t, err, core.InterruptContext)
		is(t, err, context.Canceled, errBoom)
		isNot(t, &core.InterruptedError{Reason: core.InterruptUser}, context.Canceled)
		isNot(t, &core.InterruptedError{Reason: core.InterruptContext, Cause: context.DeadlineExceeded}, context.Canceled)
	})
}

func TestDeadlineThatIsAheadIsToldAsSuch(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, ctx := range []context.Context{t.Context(), inRun(t)} {
			err := ended(t, ctx, 5*time.Second)
			failed(t, err, core.ReasonDeadline)
			equal(t, "text", err.Error(), "tool: deadline (the next delay of 8s does not fit before that of the context given to this call, 5s from now): "+errFlaky.Error())
		}
	})
}

func inRun(t *testing.T) context.Context {
	t.Helper()
	_, ctx := run(t)
	return ctx
}

// A text is one line of a log.
func TestErrorsOfCallsHaveNoLinesOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T) {
		cfg := timed(2)
		cfg.StopWhen = func(a core.Attempt) bool {
			if a.Number == 2 {
				panic("oops")
			}
			return false
		}
		_, err := call(inRun(t), tool(t, cfg, attempts(fail(errFlaky), listening(time.Hour))))
		is(t, err, context.DeadlineExceeded)
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q has lines", err)
		}
		var panicked *core.PanicError
		equal(t, "panic", errors.As(err, &panicked), true)
	})
}
