package actors_test

import (
	"context"
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestLLMThatAsksAnLLMAddsNothing(t *testing.T) {
	used := core.Usage{InputTokens: 10, OutputTokens: 2, Cost: 0.5}
	inner := decorators.LLM("inner", func(context.Context, actors.Request) (actors.Response, error) {
		return using(used, says("hello")), nil
	})
	router := decorators.LLM("router", func(ctx context.Context, req actors.Request) (actors.Response, error) {
		return inner.Call(ctx, req)
	})
	st := state.New()
	resp, err := router.Call(st.Context(t.Context()), actors.Request{})
	require.NoError(t, err)
	assert.Equal(t, used, resp.Usage)
	require.NoError(t, st.Close())
	total := core.Usage{}
	for _, r := range testkit.Records(t, st) {
		if r.Detail != nil {
			total = total.Plus(r.Detail.Usage)
		}
	}
	assert.Equal(t, used, total)
}

// The usage of an answer includes that of its sub-agents, even if they were recalled, and that of
// failed attempts.
func TestUsageOfAnAnswerHasThatOfSubAgents(t *testing.T) {
	for stopAt := range 6 { // interrupt the run before the model call with this number
		s, asked, failed := memstore.New(), 0, false
		model := func(name string, script ...actors.Response) actors.LLM {
			return decorators.LLM(name, func(ctx context.Context, req actors.Request) (actors.Response, error) {
				if asked++; asked == stopAt {
					state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
					return actors.Response{}, ctx.Err()
				}
				turn := 0
				for _, m := range req.Messages {
					if m.Role == actors.RoleAssistant {
						turn++
					}
				}
				if name == "small" && turn == 1 && !failed {
					failed = true
					core.AddUsage(ctx, core.Usage{InputTokens: 1000})
					return actors.Response{}, core.Retryable(assert.AnError)
				}
				return using(core.Usage{InputTokens: 1, OutputTokens: 10}, script[turn]), nil
			}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
		}
		small := actors.NewAgent("helper", model("small", asks(call("echo", `{"n":7}`)), says("seven")), actors.WithTools(echo()))
		agent := actors.NewAgent("assistant", model("large", asks(call("helper", `{"text":"how many?"}`)), says("it is seven")), actors.WithTools(small))
		var answer actors.Answer
		for range 2 {
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			answer, err = agent.Call(st.Context(t.Context()), actors.Ask("how many?"))
			require.NoError(t, st.Close())
			if err == nil {
				break
			}
			require.ErrorIs(t, err, core.ErrInterrupted)
		}
		assert.Equal(t, core.Usage{InputTokens: 1004, OutputTokens: 40}, answer.Usage, "stopped at call %d", stopAt)
	}
}

func TestUsageInsideExcludesTheAttemptsOwn(t *testing.T) {
	assert.Zero(t, core.UsageOfCalls(t.Context()))
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ number) (core.Usage, error) {
		core.AddUsage(ctx, core.Usage{InputTokens: 5})
		return core.UsageOfCalls(ctx), nil
	})
	for range 2 {
		out, err := agent.Call(t.Context(), number{})
		require.NoError(t, err)
		assert.Zero(t, out)
	}
}

// What a model reports about its answer is recorded as attributes of the attempt.
func TestAttemptOfAModelHasAttributes(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		llm := actors.NewLLM("model", func(ctx context.Context, _ actors.Request) (actors.Response, error) {
			_ = testkit.Pause(ctx, time.Second)
			live.Emit(ctx, live.Delta{Part: live.PartText, Text: "Hi"})
			_ = testkit.Pause(ctx, time.Second)
			return actors.Response{Message: actors.Assistant("Hi"), ID: "r1", Model: "m-2026", FinishReason: "end_turn", Finish: actors.FinishStop}, nil
		})
		st, ctx := testkit.Run(t)
		_, err := llm.Call(live.Watch(ctx, func(live.Delta) {}), actors.Request{})
		require.NoError(t, err)
		records := testkit.Records(t, st)
		assert.Equal(t, map[string]any{"first_token": 1.0, "response_id": "r1", "model": "m-2026", "finish": "end_turn"},
			records[len(records)-1].Detail.Metadata)
	})
}
