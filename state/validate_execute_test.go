package state_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

type validator = func(context.Context, snapshot.Store, string, func(context.Context) error, ...state.Option) ([]state.Difference, error)

// validated returns the differences, one per line, that are found by validating a call of d.
func validated[In, Out any](t testing.TB, validate validator, s snapshot.Store, d *core.Definition[In, Out], in In, options ...state.Option) []string {
	t.Helper()
	differences, err := validate(t.Context(), s, "run-1", func(ctx context.Context) error {
		_, err := d.Event().Execute(ctx, in)
		return err
	}, options...)
	require.NoError(t, err)
	var lines []string
	for _, d := range differences {
		lines = append(lines, d.String())
	}
	return lines
}

func TestValidateExecuteOfTheSameProgramFindsNoDifference(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			program := randomTree(rand.New(rand.NewPCG(seed, 7)), 2)
			whole, first := new(tape), newEffects()
			resumed(t, whole, first, program)
			kept, again := len(whole.records), newEffects()
			differences, err := state.ValidateExecute(t.Context(), whole, "run-1", func(ctx context.Context) error {
				_, err := again.call(t, ctx, program)
				return err
			}, state.WithSeed(1))
			require.NoError(t, err)
			assert.Empty(t, differences)
			assert.Len(t, whole.records, kept, "no record is written")
			if !strings.Contains(fmt.Sprint(first.order), "group:fast") { // branches stopped by a failed group are not executed
				assert.Equal(t, first.ran, again.ran, "every leaf is executed")
			}
		})
	}
}

func TestValidateExecuteComparesWhatLeavesReturn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, failure, attempts := "recorded", error(nil), 0
		tool, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (string, error) {
			if attempts++; attempts < 3 {
				return "", core.Retryable(errors.New("not yet"))
			}
			return out, failure
		})
		require.NoError(t, err)
		agent, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(ctx context.Context, in int) (int, error) {
			_, err := tool.Event().Execute(ctx, in)
			_, _ = core.Step(ctx, "now", func(context.Context) (time.Time, error) { return time.Now(), nil })
			return 1, err
		})
		require.NoError(t, err)
		whole := new(tape)
		st, err := state.Open(t.Context(), whole, "run-1")
		require.NoError(t, err)
		_, err = agent.Event().Execute(st.Context(t.Context()), 1)
		require.NoError(t, err)
		require.NoError(t, st.Close())

		now := fmt.Sprintf("agent/step:now: output: recorded %s", record.Preview(whole.records[len(whole.records)-3].Encoded()))
		validate := func() []string {
			attempts = 0
			lines := validated(t, state.ValidateExecute, whole, agent, 1)
			assert.Equal(t, 3, attempts, "the attempts that the call needs")
			var other []string
			for _, line := range lines {
				if !strings.HasPrefix(line, now) {
					other = append(other, line)
				}
			}
			assert.Len(t, lines, len(other)+1, "the time differs")
			return other
		}
		assert.Empty(t, validate())
		out = "changed"
		assert.Equal(t, []string{`agent/tool: output: recorded "recorded", now "changed"`}, validate())
		failure = errors.New("broken")
		assert.Equal(t, []string{"agent/tool: status: recorded completed, now failed", "agent: status: recorded completed, now failed"}, validate())
		assert.Empty(t, validated(t, state.Validate, whole, agent, 1), "Validate does not execute tools")
	})
}

func TestValidateDoesNotLookInsideRecalledCalls(t *testing.T) {
	inner := 0
	called, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "called"}, func(context.Context, int) (int, error) {
		inner++
		return 1, nil
	})
	require.NoError(t, err)
	tool, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(ctx context.Context, in int) (int, error) {
		return called.Event().Execute(ctx, in)
	})
	require.NoError(t, err)
	whole := new(tape)
	st, err := state.Open(t.Context(), whole, "run-1")
	require.NoError(t, err)
	_, err = tool.Event().Execute(st.Context(t.Context()), 1)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Empty(t, validated(t, state.Validate, whole, tool, 1), "the call inside the tool is not missing")
	assert.Equal(t, 1, inner)
	assert.Empty(t, validated(t, state.ValidateExecute, whole, tool, 1))
	assert.Equal(t, 2, inner)
}

func TestOutputsAreComparedAsValues(t *testing.T) {
	long := strings.Repeat("x", 1000)
	out := map[string]any{"a": 1, "b": map[string]string{"c": long, "d": "e", "f": "g"}}
	agent, err := core.NewDefinition(core.Spec{Kind: record.KindAgent, Name: "agent"}, func(context.Context, int) (map[string]any, error) { return out, nil })
	require.NoError(t, err)
	whole := new(tape)
	st, err := state.Open(t.Context(), whole, "run-1")
	require.NoError(t, err)
	_, err = agent.Event().Execute(st.Context(t.Context()), 1)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	for range 20 { // maps have no order
		require.Empty(t, validated(t, state.Validate, whole, agent, 1))
	}
	out["b"] = map[string]string{"c": long + "y", "d": "e", "f": "g"}
	lines := validated(t, state.Validate, whole, agent, 1)
	require.Len(t, lines, 1)
	assert.Contains(t, lines[0], "agent: output: recorded")
}

// refusing is an artifact store that fails the test if an artifact is stored.
type refusing struct{ t testing.TB }

func (r refusing) Put(context.Context, []byte) (string, error) {
	r.t.Error("an artifact was stored")
	return "", nil
}

func (r refusing) Get(context.Context, string) ([]byte, error) { return nil, snapshot.ErrNotFound }

func TestValidateExecuteStoresNoArtifact(t *testing.T) {
	out := strings.Repeat("x", 100<<10)
	tool, err := core.NewDefinition(core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, int) (string, error) { return out, nil })
	require.NoError(t, err)
	whole := new(tape)
	st, err := state.Open(t.Context(), whole, "run-1", state.WithArtifacts(new(memstore.Artifacts)))
	require.NoError(t, err)
	_, err = tool.Event().Execute(st.Context(t.Context()), 1)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Empty(t, validated(t, state.ValidateExecute, whole, tool, 1, state.WithArtifacts(refusing{t})))
	out += "y"
	assert.Len(t, validated(t, state.ValidateExecute, whole, tool, 1, state.WithArtifacts(refusing{t})), 1)
}
