package printer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
)

func TestTallyForgetsFinishedCallsFirst(t *testing.T) {
	const limit = 8
	tally := newTally(limit)
	add := func(path string, status core.Status) {
		a, err := core.ParseAddress(path)
		require.NoError(t, err)
		tally.add(&core.Record{RunID: "r", Kind: core.KindAgent, Status: status, Address: a})
	}
	add("outer", core.StatusStarted)
	for i := range 1000 {
		add(fmt.Sprintf("outer/inner#%d", i+2), core.StatusCompleted)
		require.LessOrEqual(t, len(tally.young)+len(tally.old), 2*limit)
	}
	add("outer", core.StatusCompleted)
	assert.Equal(t, Summary{Executions: Executions{Completed: 1001}, Agents: Executions{Completed: 1001}, Attempts: 1001}, tally.summary)
}

func TestTallyIsBoundedWhereNothingEnds(t *testing.T) {
	const limit = 8
	tally := newTally(limit)
	for i := range 1000 {
		tally.add(&core.Record{RunID: fmt.Sprint(i), Kind: core.KindTool, Status: core.StatusStarted})
		require.LessOrEqual(t, len(tally.young)+len(tally.old), 2*limit)
	}
	assert.Equal(t, Summary{Executions: Executions{GoingOn: 1000}, Tools: Executions{GoingOn: 1000}, Attempts: 1000}, tally.summary)
}
