package core_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

// ring is an error that wraps itself, either alone or joined with another error.
type ring struct{ alone bool }

func (*ring) Error() string { return "ring" }

func (r *ring) Unwrap() error {
	if r.alone {
		return r
	}
	return errors.Join(errBoom, &ring{}) // a new value each time
}

func TestErrorThatWrapsItselfFailsItsCall(t *testing.T) {
	for _, r := range []*ring{{alone: true}, {}} {
		st, ctx := testkit.Run(t)
		_, err := testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Fail(r)))
		testkit.Failed(t, err, record.ReasonPermanent)
		assert.ErrorContains(t, err, "the error, a *core_test.ring, wraps itself")
		_, err = testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Succeed).Require(func(context.Context, string) error { return r }))
		testkit.Failed(t, err, record.ReasonPrecondition)
		_, err = testkit.Call(ctx, testkit.Tool(t, "tool", steady, func(context.Context, string) (string, error) { panic(r) }))
		testkit.Failed(t, err, record.ReasonPanic)
		require.NoError(t, st.Close())
	}
}

func TestErrorsThatAreWrappedDeepArePassedOn(t *testing.T) {
	deep := core.Retryable(errBoom)
	for range 5000 {
		deep = fmt.Errorf("%w", deep)
	}
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Fail(errors.Join(deep, deep))))
	assert.ErrorIs(t, err, errBoom)
}

func TestTimeoutWithAnErrorThatWrapsItselfStaysATimeout(t *testing.T) {
	for _, r := range []*ring{{alone: true}, {}} {
		synctest.Test(t, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			tool := testkit.Tool(t, "tool", core.RetryConfig{MaxAttempts: 1, AttemptTimeout: time.Second}, func(ctx context.Context, _ string) (string, error) {
				<-ctx.Done()
				return "", r
			})
			_, err := testkit.Call(ctx, tool)
			var timeout *core.TimeoutError
			require.ErrorAs(t, err, &timeout)
			assert.ErrorContains(t, err, "attempt timed out after 1s: the error, a *core_test.ring, wraps itself")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
	}
}
