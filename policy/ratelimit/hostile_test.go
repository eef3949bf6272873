package ratelimit_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/policy/ratelimit"
)

// brokenError is an error whose method panics.
type brokenError struct{}

func (brokenError) Error() string { return "out of ink" }
func (brokenError) Is(error) bool { panic("broken") }

func TestErrorWithABrokenMethodIsTheErrorOfItsCall(t *testing.T) {
	l := ratelimit.New(ratelimit.Options{Name: "s", Requests: 10})
	printer := decorators.Agent("print", "", func(context.Context, int) (int, error) {
		return 0, brokenError{}
	}, actors.WithInterceptors(l.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	_, err := printer.Call(t.Context(), 1)
	require.ErrorContains(t, err, "out of ink")
	assert.NotContains(t, err.Error(), "panic")
}
