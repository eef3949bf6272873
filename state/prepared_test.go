package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// prepared is a program that prepares its calls in order and executes them in reverse order.
type prepared struct {
	calls [][2]string // names and inputs
	from  int         // index of the last call executed before the program is interrupted
	ran   *[]string
}

func (p prepared) run(t *testing.T, s *tape, options ...state.Option) (string, error) {
	t.Helper()
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		var all []*core.PreparedCall[string, string]
		for _, c := range p.calls {
			tool := testkit.Tool(t, c[0], once, func(_ context.Context, in string) (string, error) {
				*p.ran = append(*p.ran, c[0]+in)
				return c[0] + in, nil
			})
			all = append(all, tool.Event().Prepare(ctx, c[1]))
		}
		out := ""
		for i := len(all) - 1; i >= p.from; i-- {
			got, err := all[i].Execute(ctx)
			if err != nil {
				return "", err
			}
			out += got
		}
		if p.from > 0 {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}
		return out, nil
	})
	st, err := state.Open(t.Context(), s, "run-1", options...)
	require.NoError(t, err)
	out, err := testkit.Call(st.Context(t.Context()), agent)
	require.NoError(t, st.Close())
	return out, err
}

// A call that was prepared but has no record is compared like one with a record.
func TestPreparedCallIsCompared(t *testing.T) {
	for name, changed := range map[string][][2]string{
		"another input": {{"a", "9"}, {"b", "2"}},
		"another name":  {{"x", "1"}, {"b", "2"}},
		"one less":      {{"b", "2"}},
		"one more":      {{"a", "0"}, {"a", "1"}, {"b", "2"}},
		"swapped":       {{"b", "2"}, {"a", "1"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, ran := new(tape), []string{}
			old := prepared{calls: [][2]string{{"a", "1"}, {"b", "2"}}, from: 1, ran: &ran}
			_, err := old.run(t, s)
			require.ErrorIs(t, err, core.ErrInterrupted)
			for range 2 {
				_, err = prepared{calls: changed, ran: &ran}.run(t, s)
				require.ErrorIs(t, err, core.ErrDivergence)
			}
			assert.Equal(t, []string{"b2"}, ran)
			old.from = 0
			out, err := old.run(t, s)
			require.NoError(t, err, "the original program")
			assert.Equal(t, "b2a1", out)
			assert.Equal(t, []string{"b2", "a1"}, ran)
		})
	}
}

func TestPreparedCallWithAnotherInputIsMadeUnderRerun(t *testing.T) {
	s, ran := new(tape), []string{}
	_, err := prepared{calls: [][2]string{{"a", "1"}, {"b", "2"}}, from: 1, ran: &ran}.run(t, s)
	require.ErrorIs(t, err, core.ErrInterrupted)
	changed := prepared{calls: [][2]string{{"a", "9"}, {"b", "2"}}, ran: &ran}
	out, err := changed.run(t, s.cut(len(s.records)), state.WithDivergence(state.DivergenceTrust))
	require.NoError(t, err)
	assert.Equal(t, "b2a9", out)
	ran = nil
	out, err = changed.run(t, s, state.WithDivergence(state.DivergenceRerun))
	require.NoError(t, err)
	assert.Equal(t, "b2a9", out)
	assert.Equal(t, []string{"b2", "a9"}, ran, "the later call is made again")
}
