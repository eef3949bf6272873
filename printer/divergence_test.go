package printer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

func TestRunOfAChangedProgramSaysWhatDiffersAndHowToContinue(t *testing.T) {
	store, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	book := func(tool, city string) error {
		st, err := state.Open(t.Context(), store, "trip-1")
		require.NoError(t, err)
		defer st.Close()
		agent := decorators.Agent("planner", "", func(ctx context.Context, city string) (string, error) {
			_, err := decorators.Tool(tool, "", func(context.Context, struct{}) (string, error) { return city, nil }).Call(ctx, struct{}{})
			if err == nil {
				st.Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
				err = ctx.Err()
			}
			return "", err
		})
		_, err = agent.Call(st.Context(t.Context()), city)
		return err
	}
	require.ErrorIs(t, book("book", "Oslo"), core.ErrInterrupted)
	err = book("reserve", "Oslo")
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorContains(t, err, "). planner/reserve did not run. Run the previous program,")
	out := printed(testkit.LoadRun(t, store, "trip-1").Records, printer.WithCommand("reprise --dir data"))
	assert.Contains(t, out, "⏸ run trip-1 [INTERRUPTED] divergence: call 1 of planner: recorded planner/book (tool), now planner/reserve (tool) "+
		"(the call is not on record: it was inserted or renamed)\n"+
		"  · run the previous program, or fork the run: reprise --dir data fork trip-1 planner/book NEW\n"+
		"  · if calls after the given one have had effects, the command lists them and the flags that decide how to handle them\n")
	require.ErrorIs(t, book("book", "Rome"), core.ErrDivergence)
	out = printed(testkit.LoadRun(t, store, "trip-1").Records)
	assert.Contains(t, out, "⏸ run trip-1 [INTERRUPTED] divergence: the input of planner: recorded \"Oslo\", now \"Rome\"\n"+
		"  · use a new run ID for another input\n")
}
