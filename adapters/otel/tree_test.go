package otel_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// An agent that has another agent as a tool is interrupted and then continues with a new Telemetry
// and a new exporter, as it would in another process. Both exporters send to one collector.
func TestTreeOfAnAgentThatIsRetriedAndResumed(t *testing.T) {
	quick := actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay})
	collector, store := newReceiver(t), memstore.New()
	model := actorstest.NewScript(t,
		actorstest.Calls(actorstest.Call("search", in{"fjords"}), actorstest.Call("writer", actors.Ask("fjords"))),
		actorstest.Fail(core.Retryable(errors.New("overloaded"))),
		actorstest.Say("Fjords are deep.").Using(core.Usage{InputTokens: 7, OutputTokens: 3}),
		actorstest.Say("Done."),
	)
	ran := false
	program := func(st *state.ExecutionState, interrupt bool, span func(context.Context, string)) error {
		search := decorators.Tool("search", "", func(ctx context.Context, _ in) (string, error) {
			if core.ScopeOf(ctx).Attempt() == 0 {
				return "", core.Retryable(errors.New("busy"))
			}
			span(ctx, "GET")
			ran = true
			return "found", nil
		}, quick)
		publish := decorators.Tool("publish", "", func(ctx context.Context, _ in) (string, error) {
			if interrupt {
				st.Interrupt(snapshot.Stop{By: "deployment"})
				<-ctx.Done()
				return "", ctx.Err()
			}
			span(ctx, "POST")
			return "published", nil
		})
		writer := actors.NewAgent("writer", model.LLM("small", quick))
		lead := actors.NewAgent("lead", model.LLM("large"), actors.WithTools(search, writer), actors.WithToolWorkers(1))
		_, err := decorators.Agent("report", "", func(ctx context.Context, in in) (string, error) {
			answer, err := lead.Call(ctx, actors.Ask(in.Text))
			if err != nil {
				return "", err
			}
			return publish.Call(ctx, struct {
				Text string `json:"text"`
			}{answer.Text})
		}).Call(st.Context(t.Context()), in{"Write about fjords."})
		return err
	}
	for _, interrupt := range []bool{true, false} {
		provider, options, shut := collector.process(t)
		tracer := provider.Tracer("http")
		ctx, request := tracer.Start(t.Context(), map[bool]string{true: "POST /reports", false: "POST /resume"}[interrupt])
		request.End()
		st, err := state.Open(ctx, store, "a", options...)
		require.NoError(t, err)
		err = program(st, interrupt, func(ctx context.Context, name string) {
			_, s := tracer.Start(ctx, name)
			s.End()
		})
		require.Equal(t, interrupt, err != nil, err)
		require.NoError(t, st.Close())
		shut()
	}
	require.True(t, ran)
	got := collector.tree(func(key string) bool {
		return key == "gen_ai.operation.name" || key == "reprise.run.generation" || key == "reprise.status" || key == "reprise.attempt" ||
			key == "error.type" || strings.HasPrefix(key, "gen_ai.usage.")
	})
	t.Log(got)
	assert.Equal(t, `
POST /reports
run reprise.run.generation=1 reprise.status=interrupted -> POST /reports (request)
  invoke_agent report gen_ai.operation.name=invoke_agent reprise.status=interrupted
    attempt reprise.attempt=1
      invoke_agent lead gen_ai.operation.name=invoke_agent reprise.status=completed
        attempt reprise.attempt=1
          chat large gen_ai.operation.name=chat reprise.status=completed
            attempt reprise.attempt=1
          execute_tool search gen_ai.operation.name=execute_tool reprise.status=completed
            attempt reprise.attempt=1 error.type=_OTHER ERROR
            attempt reprise.attempt=2
              GET
          invoke_agent writer gen_ai.operation.name=invoke_agent reprise.status=completed
            attempt reprise.attempt=1
              chat small gen_ai.operation.name=chat reprise.status=completed gen_ai.usage.input_tokens=7 gen_ai.usage.output_tokens=3
                attempt reprise.attempt=1 error.type=_OTHER ERROR
                attempt reprise.attempt=2
          chat large gen_ai.operation.name=chat reprise.status=completed
            attempt reprise.attempt=1
      execute_tool publish gen_ai.operation.name=execute_tool reprise.status=interrupted
        attempt reprise.attempt=1
  run reprise.run.generation=2 reprise.status=completed -> POST /resume (request) -> run (previous generation)
    invoke_agent report gen_ai.operation.name=invoke_agent reprise.status=completed
      attempt reprise.attempt=1
        execute_tool publish gen_ai.operation.name=execute_tool reprise.status=completed
          attempt reprise.attempt=1
            POST
POST /resume`, got)
}
