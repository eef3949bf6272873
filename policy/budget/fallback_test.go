package budget_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/policy/budget"
	"github.com/reprise-go/reprise/record"
)

func TestAttemptCountsOnceIfAnInnerInterceptorAnswers(t *testing.T) {
	sorry, err := record.Encode(actors.Response{Message: actors.Assistant("sorry")})
	require.NoError(t, err)
	answersFailures := func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if next(ctx) == nil {
			return nil
		}
		return call.Answer(sorry)
	}
	answersInstead := func(_ context.Context, call *core.CallInfo, _ func(context.Context) error) error {
		return call.Answer(sorry)
	}
	for name, c := range map[string]struct {
		fallback func(context.Context, *core.CallInfo, func(context.Context) error) error
		usage    core.Usage
		fail     error
		left     budget.Amount
	}{
		"after a failure that reports its usage": {answersFailures, core.Usage{InputTokens: 900}, errors.New("cut off"), budget.Amount{Tokens: 100, Calls: 9, Cost: 91}},
		"after a failure without usage":          {answersFailures, core.Usage{}, errors.New("cut off"), budget.Amount{Tokens: 900, Calls: 9, Cost: 99}},
		"after the service has refused":          {answersFailures, core.Usage{}, busy{}, budget.Amount{Tokens: 1000, Calls: 9, Cost: 100}},
		"instead of the model":                   {answersInstead, core.Usage{}, nil, budget.Amount{Tokens: 1000, Calls: 10, Cost: 100}},
	} {
		t.Run(name, func(t *testing.T) {
			st, ctx := testkit.Run(t)
			b := newBudget(budget.Amount{Tokens: 1000, Calls: 10, Cost: 100})
			llm := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
				core.AddUsage(ctx, c.usage)
				return actors.Response{}, c.fail
			}, once, actors.WithInterceptors(b.Interceptor(), core.Interceptor{Attempt: c.fallback}))
			resp, err := llm.Call(ctx, question)
			require.NoError(t, err)
			assert.Equal(t, "sorry", resp.Message.Text)
			left, err := b.LeftOf(t.Context(), st.RunID())
			require.NoError(t, err)
			assert.Equal(t, c.left, left)
		})
	}
}

func TestBudgetEndsWhileAnInnerInterceptorAnswers(t *testing.T) {
	_, ctx := testkit.Run(t)
	b := newBudget(budget.Amount{Calls: 2})
	s := &service{fail: errors.New("cut off")}
	sorry, err := record.Encode(actors.Response{Message: actors.Assistant("sorry")})
	require.NoError(t, err)
	llm := s.llm(b, actors.WithInterceptors(core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if next(ctx) == nil {
			return nil
		}
		return call.Answer(sorry)
	}}))
	for range 2 {
		_, err := llm.Call(ctx, question)
		require.NoError(t, err)
	}
	_, err = llm.Call(ctx, question)
	require.ErrorIs(t, err, core.ErrBudget)
	assert.Equal(t, 2, s.asked)
}

type busy struct{}

func (busy) Error() string   { return "429" }
func (busy) StatusCode() int { return 429 }
