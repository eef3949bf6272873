package state_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// loud is a registered error whose value can have any size.
type loud struct {
	Value string `json:"value"`
}

func (e *loud) Error() string { return "loud" }

func init() { record.RegisterErrorType[*loud]("state_test.loud") }

// failing returns an agent whose tool fails with err. The first time, the agent is interrupted
// after the failure.
func failing(t *testing.T, err error, stop *bool, seen *error) *testkit.Definition {
	return testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		_, *seen = testkit.Call(ctx, testkit.Tool(t, "tool", once, testkit.Fail(err)))
		if *stop {
			*stop = false
			state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			return "", ctx.Err()
		}
		return "", *seen
	})
}

func TestErrorsAreTheSameAfterAResumeEvenIfTheyAreLong(t *testing.T) {
	for name, err := range map[string]error{
		"short":        errors.New("no"),
		"long":         errors.New(strings.Repeat("löng ", 2000)),
		"large value":  &loud{strings.Repeat("x", 60<<10)},
		"in another":   errors.Join(errors.New(strings.Repeat("a", 3000)), errors.New(strings.Repeat("b", 3000))),
		"in a timeout": &core.TimeoutError{Err: errors.New(strings.Repeat("c", 5000))},
	} {
		t.Run(name, func(t *testing.T) {
			s, stop := fileStore(t, t.TempDir()), true
			var live, resumed error
			open := func(seen *error) (error, *state.ExecutionState) { //nolint:staticcheck // the error of the agent
				st, openErr := state.Open(t.Context(), s, "run-1")
				require.NoError(t, openErr)
				_, callErr := testkit.Call(st.Context(t.Context()), failing(t, err, &stop, seen))
				require.NoError(t, st.Close())
				return callErr, st
			}
			stopped, _ := open(&live)
			require.ErrorIs(t, stopped, core.ErrInterrupted)
			failed, _ := open(&resumed)
			again, _ := open(new(error))
			assert.Equal(t, live.Error(), resumed.Error())
			text, _, _ := strings.Cut(again.Error(), " (the recorded failure")
			assert.Equal(t, failed.Error(), text, "the error of the agent around the tool")
			assert.LessOrEqual(t, len([]rune(live.Error())), record.MessageLimit+100)
			var before, after *loud
			assert.Equal(t, errors.As(live, &before), errors.As(resumed, &after))
			assert.Equal(t, before, after)
		})
	}
}

func TestErrorValueThatIsNotKeptIsLogged(t *testing.T) {
	s, stop := fileStore(t, t.TempDir()), false
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	_, err = testkit.Call(st.Context(t.Context()), failing(t, &loud{strings.Repeat("x", 65<<10)}, &stop, new(error)))
	var live *loud
	require.ErrorAs(t, err, &live)
	lines := kinds(t, st, record.KindLog)
	require.NotEmpty(t, lines)
	assert.Equal(t, "agent/tool", lines[0].Address.String())
	assert.Contains(t, lines[0].Message(), "more than 64 KB of state_test.loud: errors.As finds it now, but not after a resume")
	require.NoError(t, st.Close())
}

func TestInterruptWithTheReasonOfADivergenceRefusesNothing(t *testing.T) {
	s := fileStore(t, t.TempDir())
	open := func(stop bool, names ...string) error {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
			for _, name := range names {
				if _, err := testkit.Call(ctx, testkit.Tool(t, name, once, testkit.Succeed)); err != nil {
					return "", err
				}
			}
			if stop {
				state.From(ctx).Interrupt(snapshot.Stop{Reason: record.InterruptDiverge, By: "ops", Message: "by hand"})
				return "", ctx.Err()
			}
			return "", nil
		}))
		require.NoError(t, st.Close())
		return err
	}
	require.ErrorIs(t, open(true, "search", "book"), core.ErrInterrupted)
	require.ErrorIs(t, open(false, "search", "reserve"), core.ErrDivergence, "the recorded calls are still compared")
	require.NoError(t, open(false, "search", "book"))
}
