package state_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// program is the handler of an agent that makes named calls.
type program func(ctx context.Context, call func(tool string)) error

// play returns a function that makes a program's calls inside an agent.
func play(t *testing.T, p program) func(context.Context) error {
	agent := decorators.Agent("agent", "Makes the calls.", func(ctx context.Context, _ struct{}) (string, error) {
		return "done", p(ctx, func(tool string) {
			_, err := testkit.Call(ctx, testkit.Tool(t, tool, once, testkit.Succeed))
			assert.NoError(t, err)
		})
	})
	return func(ctx context.Context) error {
		_, err := agent.Call(ctx, struct{}{})
		return err
	}
}

// TestValidateListsWhatAResumeWouldRefuse checks that Validate lists what a resumed run would
// refuse: calls in a different order, a different call at the same address, and changed questions.
func TestValidateListsWhatAResumeWouldRefuse(t *testing.T) {
	asking := func(question string) program {
		return func(ctx context.Context, call func(string)) error {
			call("a")
			if question != "" {
				if _, err := core.Await[bool](ctx, question); err != nil {
					return err
				}
			}
			call("b")
			return nil
		}
	}
	grouped := func(tool string) program {
		branch := decorators.Tool(tool, "Reads a page.", func(_ context.Context, _ struct{}) (string, error) { return "read", nil })
		return func(ctx context.Context, _ func(string)) error {
			_, err := actors.Map(ctx, actors.Group{Name: "pages"}, branch, make([]struct{}, 2))
			return err
		}
	}
	inOrder := func(tools ...string) program {
		return func(_ context.Context, call func(string)) error {
			for _, tool := range tools {
				call(tool)
			}
			return nil
		}
	}
	step := func(ctx context.Context, call func(string)) error {
		_, err := core.Step(ctx, "a", func(context.Context) (int, error) { return 1, nil })
		call("b")
		return err
	}
	for name, test := range map[string]struct {
		was, now program
		want     []string
	}{
		"the same":         {asking("Go on?"), asking("Go on?"), nil},
		"swapped":          {inOrder("a", "b", "c"), inOrder("b", "a", "c"), []string{"agent/a: order: recorded before agent/b, now after agent/b"}},
		"moved to the end": {inOrder("a", "b", "c"), inOrder("b", "c", "a"), []string{"agent/a: order: recorded before agent/c, now after agent/c"}},
		"a branch renamed": {grouped("fetch"), grouped("get"), []string{
			"agent/group:pages/1: call: recorded tool_call fetch, now tool_call get",
			"agent/group:pages/2: call: recorded tool_call fetch, now tool_call get",
		}},
		"the same group":      {grouped("fetch"), grouped("fetch"), nil},
		"a question reworded": {asking("Go on?"), asking("Shall I?"), []string{`agent: question: recorded "Go on?", now "Shall I?"`}},
		"a question inserted": {asking(""), asking("Go on?"), []string{
			`agent: question: recorded none, now "Go on?"`,
			"agent/b: call: recorded tool_call, now none",
		}},
		"a question removed": {asking("Go on?"), asking(""), []string{`agent: question: recorded "Go on?", now none`}},
		"a step inserted":    {inOrder("b"), step, []string{"agent/step:a: call: recorded none, now step"}},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			resume := func(p program) error {
				st, err := state.Open(t.Context(), store, "run-1")
				require.NoError(t, err)
				defer func() { require.NoError(t, st.Close()) }()
				return play(t, p)(st.Context(t.Context()))
			}
			if err := resume(test.was); err != nil {
				require.ErrorIs(t, err, core.ErrAwaiting)
				require.NoError(t, state.Answer(t.Context(), store, "run-1", "agent?1", "", true))
				require.NoError(t, resume(test.was))
			}
			differences, err := state.ValidateExecute(t.Context(), store, "run-1", play(t, test.now))
			require.NoError(t, err)
			var lines []string
			for _, d := range differences {
				lines = append(lines, d.String())
			}
			assert.Equal(t, test.want, lines)
		})
	}
}

// A resume does not refuse such a sleep, because only the recorded end of the sleep counts.
func TestValidateDoesNotListASleepOfAnotherLength(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sleeping := func(d time.Duration) func(context.Context) error {
			return play(t, func(ctx context.Context, _ func(string)) error { return core.Sleep(ctx, d) })
		}
		store := memstore.New()
		st, err := state.Open(t.Context(), store, "run-1")
		require.NoError(t, err)
		require.NoError(t, sleeping(time.Minute)(st.Context(t.Context())))
		require.NoError(t, st.Close())
		differences, err := state.Validate(t.Context(), store, "run-1", sleeping(time.Hour))
		require.NoError(t, err)
		assert.Empty(t, differences)
	})
}
