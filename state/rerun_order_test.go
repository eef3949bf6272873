package state_test

import (
	"context"
	"fmt"
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

// sequence is a program that calls tools by name; "(" begins an agent and ")" ends it. If stop is
// set, the program is interrupted at its end.
type sequence struct {
	calls string
	ran   []string
	stop  bool
}

func (p *sequence) run(t *testing.T, s *tape, options ...state.Option) (string, *state.ExecutionState, error) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1", options...)
	require.NoError(t, err)
	var do func(ctx context.Context, words []string, top bool) (string, error)
	do = func(ctx context.Context, words []string, top bool) (string, error) {
		out := ""
		for len(words) > 0 {
			name := words[0]
			words = words[1:]
			d := testkit.Tool(t, name, once, func(context.Context, string) (string, error) {
				p.ran = append(p.ran, name)
				return name, nil
			})
			if name == "(" {
				inner, rest, _ := strings.Cut(strings.Join(words, " ")+" ", ") ")
				words = strings.Fields(rest)
				d = testkit.Agent(t, "inner", once, func(ctx context.Context, _ string) (string, error) {
					return do(ctx, strings.Fields(inner), false)
				})
			}
			got, err := testkit.Call(ctx, d)
			if err != nil {
				return "", err
			}
			out += got
		}
		if top && p.stop {
			state.From(ctx).Interrupt(snapshot.Stop{})
			return "", ctx.Err()
		}
		return out, nil
	}
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) { return do(ctx, strings.Fields(p.calls), true) })
	out, err := testkit.Call(st.Context(t.Context()), agent)
	require.NoError(t, st.Close())
	return out, st, err
}

// With DivergenceRerun, a call that differs from the recorded one is made, and every call after it
// is made again.
func TestRerunMakesEveryCallAfterADifferentOneAgain(t *testing.T) {
	for _, tc := range []struct{ was, now, runs, at string }{
		{"a b c", "a x c", "x c", "agent/x"},
		{"a b c", "x b c", "x b c", "agent/x"},
		{"a b c", "a c", "c", "agent/c"},
		{"a b c", "b a c", "b a c", "agent/b"},
		{"a b c", "a n b c", "n b c", "agent/n"},
		{"a a b", "a b", "b", "agent/b"},
		{"a ( b c", "a ( x c", "x c", "agent/inner/x"}, // the inner agent had not ended
		{"a ( b ) c", "a x ( b ) c", "x b c", "agent/x"},
		{"a ( b ) c", "a ( b ) x", "x", "agent/x"},
	} {
		t.Run(tc.was+" to "+tc.now, func(t *testing.T) {
			s := new(tape)
			_, _, err := (&sequence{calls: tc.was, stop: true}).run(t, s)
			if !strings.Contains(tc.was, "(") || strings.Contains(tc.was, ")") {
				require.ErrorIs(t, err, core.ErrInterrupted)
			} else { // the records are cut inside the agent
				last := 0
				for i, r := range s.records {
					if r.IsOutcome() && r.Kind == record.KindTool {
						last = i
					}
				}
				s = s.cut(last + 1)
			}
			before := len(s.records)
			changed := &sequence{calls: tc.now}
			out, st, err := changed.run(t, s, state.WithDivergence(state.DivergenceRerun))
			require.NoError(t, err)
			assert.Equal(t, strings.Fields(tc.runs), changed.ran)
			require.Len(t, st.Report().Diverged, 1)
			assert.Equal(t, tc.at, st.Report().Diverged[0].String())
			warned := 0
			for _, r := range s.records[before:] {
				if r.Kind == record.KindLog {
					warned++
					assert.Contains(t, r.Message(), "made again")
					assert.NotContains(t, r.Message(), "trusted")
				}
			}
			assert.Equal(t, 1, warned)
			for n := before + 1; n < len(s.records); n++ {
				done := map[string]bool{}
				for _, r := range s.records[before:n] {
					done[r.Name] = done[r.Name] || r.IsOutcome() && r.Kind == record.KindTool
				}
				policies := []state.DivergencePolicy{state.DivergenceRerun}
				if warnedOf(s.records[before:n]) {
					policies = append(policies, state.DivergenceFail, state.DivergenceTrust)
				}
				for _, policy := range policies {
					again := &sequence{calls: tc.now}
					got, _, err := again.run(t, s.cut(n), state.WithDivergence(policy))
					at := fmt.Sprintf("policy %d, cut after record %d", policy, n)
					require.NoError(t, err, at)
					require.Equal(t, out, got, at)
					for _, name := range again.ran {
						require.False(t, done[name], "%s ran again, %s", name, at)
					}
				}
			}
		})
	}
}

func warnedOf(records []record.Record) bool {
	for _, r := range records {
		if r.Kind == record.KindLog {
			return true
		}
	}
	return false
}
