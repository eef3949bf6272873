package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// As docs/changes.md says, a run continues with a changed list of tools, unless the list lacks a
// tool that the records show was called.
func TestARunContinuesWithOtherToolsUnlessACalledOneIsGone(t *testing.T) {
	tool := func(name string) actors.Function {
		return decorators.Tool(name, "", func(context.Context, struct{}) (string, error) { return name, nil })
	}
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ struct{}) (string, error) { return core.Await[string](ctx, "?") })
	for name, c := range map[string]struct {
		tools    []actors.Function
		diverges bool
	}{
		"the same":       {[]actors.Function{ask, tool("find"), tool("unused")}, false},
		"another order":  {[]actors.Function{tool("unused"), ask, tool("find")}, false},
		"one is added":   {[]actors.Function{ask, tool("find"), tool("unused"), tool("new")}, false},
		"unused is gone": {[]actors.Function{ask, tool("find")}, false},
		"find is gone":   {[]actors.Function{ask, tool("unused")}, true},
		"ask is gone":    {[]actors.Function{tool("find"), tool("unused")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			run := func(tools []actors.Function, steps ...actorstest.Step) error {
				st, err := state.Open(t.Context(), store, "run-1")
				require.NoError(t, err)
				_, err = actors.NewAgent("agent", actorstest.NewScript(t, steps...).LLM("model"), actors.WithTools(tools...)).Call(st.Context(t.Context()), actors.Ask("Go."))
				require.NoError(t, st.Close())
				return err
			}
			call := func(name string) actorstest.Step { return actorstest.Calls(actorstest.Call(name, struct{}{})) }
			require.ErrorIs(t, run([]actors.Function{ask, tool("find"), tool("unused")}, call("find"), call("ask")), core.ErrAwaiting)
			require.NoError(t, state.Answer(t.Context(), store, "run-1", "agent/ask?1", "ann", "yes"))
			if c.diverges {
				require.ErrorIs(t, run(c.tools), core.ErrDivergence)
				return
			}
			require.NoError(t, run(c.tools, actorstest.Say("Done.")))
		})
	}
}
