package budget_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/budget"
	"github.com/reprise-go/reprise/policy/failover"
)

// docs/control.md: the models of a failover share a budget if each model has the budget's
// interceptor.
func TestModelsOfAFailoverShareABudget(t *testing.T) {
	_, ctx := testkit.Run(t)
	limit := newBudget(budget.Amount{Calls: 4})
	model := func(name string, answer func() (actors.Response, error)) actors.LLM {
		return actors.NewLLM(name, func(context.Context, actors.Request) (actors.Response, error) { return answer() },
			actors.WithInterceptors(limit.Interceptor()), actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
	}
	llm := failover.New("model", failover.Options{},
		model("down", func() (actors.Response, error) { return actors.Response{}, core.Retryable(unavailable{}) }),
		model("up", func() (actors.Response, error) {
			return actors.Response{Message: actors.Assistant("yes"), Usage: each}, nil
		}))
	for range 2 {
		_, err := llm.Call(ctx, question)
		require.NoError(t, err)
	}
	_, err := llm.Call(ctx, question)
	require.ErrorIs(t, err, core.ErrBudget)
	assert.ErrorContains(t, err, "4 of 4 calls are used", "each request to a model is a call")
}

type unavailable struct{}

func (unavailable) Error() string   { return "503" }
func (unavailable) StatusCode() int { return 503 }
