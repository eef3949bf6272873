package state_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// clerk returns an agent that follows the list in order: "?text" asks, "~" sleeps, "!" fails the
// first attempt, and any other word calls a tool of that name. It counts the tools that ran.
func clerk(t *testing.T, ran map[string]int, does ...string) *testkit.Definition {
	return testkit.Agent(t, "clerk", core.RetryConfig{MaxAttempts: 2, InitialDelay: core.NoDelay}, func(ctx context.Context, _ string) (string, error) {
		all := ""
		for _, what := range does {
			switch {
			case what[0] == '?':
				answer, err := core.Await[string](ctx, what[1:])
				if err != nil {
					return "", err
				}
				all += answer + ";"
			case what == "~":
				if err := core.Sleep(ctx, time.Minute); err != nil {
					return "", err
				}
			case what == "!":
				if core.ScopeOf(ctx).Attempt() == 0 {
					return "", core.Retryable(errors.New("once more"))
				}
			default:
				tool := testkit.Tool(t, what, once, func(context.Context, string) (string, error) { ran[what]++; return "of " + what, nil })
				out, err := testkit.Call(ctx, tool)
				if err != nil {
					return "", err
				}
				all += out + ";"
			}
		}
		return all, nil
	})
}

// opened makes the call in the run "run-1".
func opened(t *testing.T, s snapshot.Store, d *testkit.Definition) (string, error) {
	t.Helper()
	st, err := state.Open(t.Context(), s, "run-1")
	require.NoError(t, err)
	out, err := testkit.Call(st.Context(t.Context()), d)
	require.NoError(t, st.Close())
	return out, err
}

func TestQuestionsHaveTheirPlaceInTheOrder(t *testing.T) {
	recorded := []string{"search", "?which one", "book"}
	for name, tc := range map[string]struct {
		now  []string
		want string
	}{
		"removed":  {[]string{"search", "book"}, "call 2 of clerk: recorded clerk/?1 (question), now clerk/book (tool)"},
		"inserted": {[]string{"search", "price", "?which one", "book"}, "call 2 of clerk: recorded clerk/?1 (question), now clerk/price (tool)"},
		"shorter":  {[]string{"search"}, "clerk ended without its recorded call 2, clerk/?1 (question)"},
		"earlier":  {[]string{"?which one", "search", "book"}, "call 1 of clerk: recorded clerk/search (tool), now clerk/?1 (question)"},
		"slept":    {[]string{"search", "~", "?which one", "book"}, "call 2 of clerk: recorded clerk/?1 (question), now clerk/?sleep1 (question)"},
		"replaced": {[]string{"search", "?how many", "book"}, `the question of clerk: recorded "which one", now "how many"`},
	} {
		for _, answered := range []bool{false, true} {
			s, ran := memstore.New(), make(map[string]int)
			_, err := opened(t, s, clerk(t, ran, recorded...))
			require.ErrorIs(t, err, core.ErrAwaiting)
			if answered {
				require.NoError(t, state.Answer(t.Context(), s, "run-1", "clerk?1", "", "the red one"))
			}
			_, err = opened(t, s, clerk(t, ran, tc.now...))
			require.ErrorIs(t, err, core.ErrDivergence, "%s, answered: %v", name, answered)
			assert.ErrorContains(t, err, tc.want, name)
			assert.NotContains(t, err.Error(), "fork run-1 'clerk/?1'", "a question is not a call, so the run cannot be forked there")
			assert.Equal(t, map[string]int{"search": 1}, ran, name)
			if !answered {
				require.NoError(t, state.Answer(t.Context(), s, "run-1", "clerk?1", "", "the red one"))
			}
			out, err := opened(t, s, clerk(t, ran, recorded...))
			require.NoError(t, err, name)
			assert.Equal(t, "of search;the red one;of book;", out)
			assert.Equal(t, map[string]int{"search": 1, "book": 1}, ran, name)
		}
	}
}

func TestSleepIsNotMistakenForAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, ran := memstore.New(), make(map[string]int)
		recorded := []string{"~", "?which one", "~", "?how many"}
		_, err := opened(t, s, clerk(t, ran, recorded...))
		require.ErrorIs(t, err, core.ErrAwaiting)
		require.NoError(t, state.Answer(t.Context(), s, "run-1", "clerk?1", "", "red"))
		_, err = opened(t, s, clerk(t, ran, recorded...))
		require.ErrorIs(t, err, core.ErrAwaiting)

		began := time.Now()
		_, err = opened(t, s, clerk(t, ran, "?which one", "~", "?how many"))
		require.ErrorIs(t, err, core.ErrDivergence)
		require.ErrorContains(t, err, "call 1 of clerk: recorded clerk/?sleep1 (question), now clerk/?1 (question)")
		_, err = opened(t, s, clerk(t, ran, "~", "?which one", "?how many", "~"))
		require.ErrorContains(t, err, "call 3 of clerk: recorded clerk/?sleep2 (question), now clerk/?2 (question)")
		assert.Zero(t, time.Since(began), "nothing slept")

		require.NoError(t, state.Answer(t.Context(), s, "run-1", "clerk?2", "", "two"))
		out, err := opened(t, s, clerk(t, ran, recorded...))
		require.NoError(t, err)
		assert.Equal(t, "red;two;", out)
	})
}

// The second attempt uses the answer of the first, and records no question.
func TestQuestionOfALaterAttemptIsComparedToo(t *testing.T) {
	s, ran := memstore.New(), make(map[string]int)
	recorded := []string{"?which one", "!", "book", "?how many"}
	_, err := opened(t, s, clerk(t, ran, recorded...))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, state.Answer(t.Context(), s, "run-1", "clerk?1", "", "red"))
	_, err = opened(t, s, clerk(t, ran, recorded...))
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, state.Answer(t.Context(), s, "run-1", "clerk?2", "", "two"))

	_, err = opened(t, s, clerk(t, ran, "price", "?which one", "!", "book", "?how many"))
	require.ErrorIs(t, err, core.ErrDivergence)
	assert.ErrorContains(t, err, "call 1 of clerk@2: recorded clerk@2/?1 (question), now clerk@2/price (tool)")
	out, err := opened(t, s, clerk(t, ran, recorded...))
	require.NoError(t, err)
	assert.Equal(t, "red;of book;two;", out)
	assert.Equal(t, map[string]int{"book": 1}, ran)
}

func TestQuestionOffThePathIsNotAsked(t *testing.T) {
	s := memstore.New()
	agent := testkit.Agent(t, "clerk", once, func(ctx context.Context, _ string) (string, error) {
		_, _ = core.Await[string](ctx, "first")
		return core.Await[string](ctx, "fallback")
	})
	_, err := opened(t, s, agent)
	require.ErrorIs(t, err, core.ErrAwaiting)
	open, err := state.Questions(t.Context(), s, "run-1")
	require.NoError(t, err)
	require.Len(t, open, 1)
	assert.Equal(t, "first", open[0].Text)
}
