package core_test

import (
	"context"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Steps of the same name are distinguished by their inputs. Without inputs, they cannot be
// distinguished.
func TestStepsThatAreSwappedAreRefusedByTheirInputs(t *testing.T) {
	for _, distinct := range []bool{false, true} {
		s := memstore.New()
		read := func(ctx context.Context, file string) (string, error) {
			var options []core.StepOption
			if distinct {
				options = append(options, core.StepInput(file))
			}
			return core.Step(ctx, "read", func(context.Context) (string, error) { return "content of " + file, nil }, options...)
		}
		run := func(stop bool, files ...string) (string, error) {
			st, err := state.Open(t.Context(), s, "run-1")
			require.NoError(t, err)
			defer st.Close()
			return testkit.Call(st.Context(t.Context()), testkit.Agent(t, "reader", core.RetryConfig{MaxAttempts: 1}, func(ctx context.Context, _ string) (string, error) {
				all := ""
				for _, file := range files {
					out, err := read(ctx, file)
					if err != nil {
						return "", err
					}
					all += file + ": " + out + ";"
				}
				if stop {
					state.From(ctx).Interrupt(snapshot.Stop{})
				}
				return all, ctx.Err()
			}))
		}
		_, err := run(true, "a", "b")
		require.ErrorIs(t, err, core.ErrInterrupted)
		out, err := run(false, "b", "a")
		if !distinct {
			assert.Equal(t, "b: content of a;a: content of b;", out, "without StepInput, the results are swapped")
			continue
		}
		require.ErrorIs(t, err, core.ErrDivergence)
		require.ErrorContains(t, err, `recorded "a", now "b"`)
		out, err = run(false, "a", "b")
		require.NoError(t, err)
		assert.Equal(t, "a: content of a;b: content of b;", out)
	}
}

func TestStepInputThatCannotBeEncodedFailsTheStep(t *testing.T) {
	st, err := state.Open(t.Context(), memstore.New(), "run-1")
	require.NoError(t, err)
	defer st.Close()
	ran := false
	_, err = core.Step(st.Context(t.Context()), "read", func(context.Context) (string, error) { ran = true; return "", nil }, core.StepInput(func() {}))
	require.ErrorContains(t, err, `input of "read"`)
	assert.False(t, ran)
}

func TestStepWithoutAFunctionIsRefused(t *testing.T) {
	st, ctx := testkit.Run(t)
	_, err := core.Step[int](ctx, "read", nil)
	require.EqualError(t, err, `core: step "read": its function is nil`)
	assert.Len(t, testkit.Records(t, st), 1, "only the record of the run")
}
