package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// An unchanged program does not differ from a run that was killed at any point.
func TestUnchangedProgramHasNoDifferencesFromAnUnfinishedRun(t *testing.T) {
	for seed := range testkit.Seeds(60) {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				program := randomTree(rand.New(rand.NewPCG(seed, 11)), 2)
				whole := new(tape)
				resumedWithValues(t, whole, newEffects(), program)
				for n := 1; n <= len(whole.records); n++ {
					again := newEffects()
					differences, err := state.Validate(t.Context(), whole.cut(n), "run-1", func(ctx context.Context) error {
						_, err := again.call(t, ctx, program)
						return err
					})
					require.NoError(t, err)
					require.Empty(t, differences, "cut after record %d: %v", n, whole.records[n-1])
					require.Empty(t, again.ran)
				}
			})
		})
	}
}

// An agent is validated against a run that was killed at any point. If a tool has no outcome yet,
// no model is told that the tool failed.
func TestAnAgentIsValidatedAgainstAnUnfinishedRun(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		stock := decorators.Tool("stock", "", func(ctx context.Context, _ struct{ Item string }) (string, error) {
			if core.ScopeOf(ctx).Attempt() == 0 {
				return "", core.Retryable(errors.New("busy"))
			}
			return "7", nil
		})
		charge := decorators.Tool("charge", "", func(context.Context, struct{ Item string }) (string, error) { return "charged", nil }, actors.WithIrreversible())
		model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
			call := func(name, id string) actors.ToolCall {
				return actors.ToolCall{ID: id, Name: name, Arguments: `{"Item":"cup"}`}
			}
			switch len(req.Messages) {
			case 1:
				return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{call("stock", "1"), call("stock", "2")}}}, nil
			case 4:
				return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{call("charge", "3")}}}, nil
			}
			return actors.Response{Message: actors.Assistant("done")}, nil
		})
		clerk := actors.NewAgent("clerk", model, actors.WithTools(stock, charge))
		program := func(wording string, last bool) func(ctx context.Context) error {
			shop := decorators.Agent("shop", "", func(ctx context.Context, _ string) (string, error) {
				if _, err := clerk.Call(ctx, actors.Ask("a cup")); err != nil {
					return "", err
				}
				if _, err := actors.Map(ctx, actors.Group{Name: "items", Workers: 2, CollectAll: true}, stock, make([]struct{ Item string }, 3)); err != nil {
					return "", err
				}
				if ok, err := core.Await[bool](ctx, wording); err != nil || !ok {
					return "", err
				}
				if last {
					answer, err := clerk.Call(ctx, actors.Ask("another cup"))
					return answer.Text, err
				}
				return core.Step(ctx, "other", func(context.Context) (string, error) { return "", nil })
			})
			return func(ctx context.Context) error {
				_, err := shop.Call(ctx, "open")
				return err
			}
		}
		store := memstore.New()
		for {
			st, err := state.Open(t.Context(), store, "run", state.WithWait())
			require.NoError(t, err)
			err = program("go on?", true)(st.Context(t.Context()))
			require.NoError(t, st.Close())
			if err == nil {
				break
			}
			require.ErrorIs(t, err, core.ErrInterrupted)
			questions, err := state.Questions(t.Context(), store, "run")
			require.NoError(t, err)
			require.NoError(t, state.Answer(t.Context(), store, "run", questions[0].ID, "ann", true))
		}
		validated := func(store snapshot.Store, program func(context.Context) error) []state.Difference {
			differences, err := state.Validate(t.Context(), store, "run", program)
			require.NoError(t, err)
			return differences
		}
		asked, again := false, false
		for records, killed := range actorstest.AfterEachRecord(t, store, "run") {
			last := &records[len(records)-1]
			require.Empty(t, validated(killed, program("go on?", true)), "killed after record %d: %v", len(records), last)
			asked = asked || last.Kind == record.KindQuestion
			again = again || asked && last.Address.String() == "shop/clerk#2"
			assert.Equal(t, asked, len(validated(killed, program("go?", true))) > 0, "another question, killed after record %d", len(records))
			assert.Equal(t, again, len(validated(killed, program("go on?", false))) > 0, "another call, killed after record %d", len(records))
		}
		assert.True(t, again)
	})
}

// A run that is retried continues with the call that failed.
func TestAnAgentIsValidatedAgainstARunThatIsRetried(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) { return "", core.Permanent(errors.New("no money")) })
		ship := decorators.Tool("ship", "", func(context.Context, struct{}) (string, error) { return "shipped", nil })
		fails := true
		agent := decorators.Agent("agent", "", func(ctx context.Context, _ string) (string, error) {
			_, err := pay.Call(ctx, struct{}{})
			if fails {
				return "", err
			}
			return ship.Call(ctx, struct{}{}) // handles the failure
		})
		program := func(ctx context.Context) error {
			_, err := agent.Call(ctx, "x")
			return err
		}
		store := memstore.New()
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		require.ErrorContains(t, program(st.Context(t.Context())), "no money")
		require.NoError(t, st.Close())
		_, err = state.Retry(t.Context(), store, "run")
		require.NoError(t, err)
		st, err = state.Open(t.Context(), store, "run") // the process stops before making the call
		require.NoError(t, err)
		require.True(t, st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown}))
		require.NoError(t, st.Close())
		fails = false
		differences, err := state.Validate(t.Context(), store, "run", program)
		require.NoError(t, err)
		assert.Empty(t, differences)
	})
}
