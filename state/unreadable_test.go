package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// These are the types that the output of a tool has in different releases.
type (
	pricedText struct {
		Price string `json:"price"`
	}
	pricedNumber struct {
		Price int `json:"price"`
	}
)

// pricing returns a program that calls the tool whose type changes between calls to two other
// tools.
func pricing[Out any](t *testing.T, ran *[]string, out Out, stop bool) func(ctx context.Context) error {
	t.Helper()
	tool := func(name string) *testkit.Definition {
		return testkit.Tool(t, name, once, func(context.Context, string) (string, error) {
			*ran = append(*ran, name)
			return name, nil
		})
	}
	price, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "price", Retry: &once}, func(context.Context, string) (Out, error) {
		*ran = append(*ran, "price")
		return out, nil
	})
	require.NoError(t, err)
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		if _, err := testkit.Call(ctx, tool("before")); err != nil {
			return "", err
		}
		if _, err := price.Event().Execute(ctx, "x"); err != nil {
			return "", err
		}
		if _, err := testkit.Call(ctx, tool("after")); err != nil {
			return "", err
		}
		if stop {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}
		return "done", nil
	})
	return func(ctx context.Context) error {
		_, err := testkit.Call(ctx, agent)
		return err
	}
}

func opening(t *testing.T, s *tape, program func(context.Context) error, options ...state.Option) error {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1", options...)
	require.NoError(t, err)
	err = program(st.Context(t.Context()))
	require.NoError(t, st.Close())
	return err
}

func TestOutputThatDoesNotFitItsType(t *testing.T) {
	start := func(t *testing.T) (*tape, *[]string) {
		s, ran := new(tape), new([]string)
		require.ErrorIs(t, opening(t, s, pricing(t, ran, pricedText{"5"}, true)), core.ErrInterrupted)
		require.Equal(t, []string{"before", "price", "after"}, *ran)
		*ran = nil
		return s, ran
	}
	for name, policy := range map[string]state.DivergencePolicy{"fail": state.DivergenceFail, "trust": state.DivergenceTrust} {
		t.Run(name, func(t *testing.T) {
			s, ran := start(t)
			for range 2 {
				err := opening(t, s, pricing(t, ran, pricedNumber{5}, false), state.WithDivergence(policy))
				require.ErrorIs(t, err, core.ErrDivergence)
				require.ErrorContains(t, err, "the recorded output of agent/price does not fit its type")
				require.ErrorContains(t, err, "give the field its previous type, or a new name")
				require.ErrorContains(t, err, "fork run-1 'agent/price' NEW")
			}
			require.NoError(t, opening(t, s, pricing(t, ran, pricedText{"5"}, false)))
			assert.Empty(t, *ran)
		})
	}
	t.Run("rerun", func(t *testing.T) {
		s, ran := start(t)
		require.ErrorIs(t, opening(t, s, pricing(t, ran, pricedNumber{5}, true), state.WithDivergence(state.DivergenceRerun)), core.ErrInterrupted)
		assert.Equal(t, []string{"price", "after"}, *ran)
		*ran = nil
		require.NoError(t, opening(t, s, pricing(t, ran, pricedNumber{5}, false)))
		assert.Empty(t, *ran)
	})
	t.Run("rerun that is cut", func(t *testing.T) {
		s, ran := start(t)
		n := len(s.records)
		require.ErrorIs(t, opening(t, s, pricing(t, ran, pricedNumber{5}, true), state.WithDivergence(state.DivergenceRerun)), core.ErrInterrupted)
		for k := n + 1; k < len(s.records); k++ {
			*ran = nil
			err := opening(t, s.cut(k), pricing(t, ran, pricedNumber{5}, false), state.WithDivergence(state.DivergenceRerun))
			require.NoError(t, err, "cut at %d", k)
			assert.NotContains(t, *ran, "before")
		}
	})
	t.Run("validate", func(t *testing.T) {
		s, ran := start(t)
		differences, err := state.Validate(t.Context(), s, "run-1", pricing(t, ran, pricedNumber{5}, true))
		require.NoError(t, err)
		require.Len(t, differences, 1)
		assert.Equal(t, "agent/price", differences[0].Address.String())
		assert.Equal(t, "output", differences[0].Field)
		assert.Empty(t, *ran)
	})
}

// In a validation, the handler of an agent runs again. If the agent's recorded output does not fit
// the new output type, this is reported as a single difference.
func TestOutputOfAnAgentThatDoesNotFitIsOneDifference(t *testing.T) {
	s := new(tape)
	program := func(agent any) func(context.Context) error {
		return func(ctx context.Context) error {
			var err error
			switch agent := agent.(type) {
			case *core.Definition[string, pricedText]:
				_, err = agent.Event().Execute(ctx, "x")
			case *core.Definition[string, pricedNumber]:
				_, err = agent.Event().Execute(ctx, "x")
			}
			return err
		}
	}
	spec := core.Spec{Kind: record.KindAgent, Name: "agent", Retry: &once}
	old, err := core.NewDefinition(spec, func(context.Context, string) (pricedText, error) { return pricedText{"5"}, nil })
	require.NoError(t, err)
	changed, err := core.NewDefinition(spec, func(context.Context, string) (pricedNumber, error) { return pricedNumber{5}, nil })
	require.NoError(t, err)
	require.NoError(t, opening(t, s, program(old)))
	differences, err := state.Validate(t.Context(), s, "run-1", program(changed))
	require.NoError(t, err)
	require.Len(t, differences, 1)
	assert.Equal(t, "output", differences[0].Field)
}
