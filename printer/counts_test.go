package printer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
)

func TestCallsWithAnOutcomeAreForgotten(t *testing.T) {
	const limit = 8
	counts := newCounts(limit)
	add := func(path string, status core.Status) {
		a, err := core.ParseAddress(path)
		require.NoError(t, err)
		counts.add(&core.Record{RunID: "r", Kind: core.KindAgent, Status: status, Address: a})
	}
	add("outer", core.StatusStarted)
	for i := range 1000 {
		add(fmt.Sprintf("outer/inner#%d", i+2), core.StatusStarted)
		add(fmt.Sprintf("outer/inner#%d", i+2), core.StatusCompleted)
		require.LessOrEqual(t, len(counts.calls), 1)
	}
	add("outer", core.StatusCompleted)
	require.Empty(t, counts.calls)
	assert.Equal(t, Summary{Executions: Executions{Completed: 1001}, Agents: Executions{Completed: 1001}, Attempts: 1001}, counts.summary)
}

func TestCountsAreBoundedWhereNothingEnds(t *testing.T) {
	const limit = 8
	counts := newCounts(limit)
	add := func(status core.Status, total int) {
		for i := range total {
			counts.add(&core.Record{RunID: fmt.Sprint(i), Kind: core.KindTool, Status: status})
			require.LessOrEqual(t, len(counts.calls), limit)
			require.LessOrEqual(t, len(counts.runs), maxRuns)
		}
	}
	add(core.StatusStarted, 2*maxRuns)
	assert.Equal(t, Summary{Executions: Executions{GoingOn: limit}, Tools: Executions{GoingOn: limit}, Attempts: limit}, counts.summary)
	add(core.StatusCompleted, 1000)
	assert.Equal(t, 1000, counts.summary.Completed, "what was not followed counts by its outcome")
	assert.Zero(t, counts.summary.GoingOn)
}

func TestRecordsThatArePublishedAgainCountOnce(t *testing.T) {
	counts := newCounts(maxFollowed)
	a, err := core.ParseAddress("tool")
	require.NoError(t, err)
	record := func(seq, generation uint64, status core.Status) *core.Record {
		return &core.Record{RunID: "r", Seq: seq, Generation: generation, Kind: core.KindTool, Status: status, Address: a, Replayed: seq == 0}
	}
	want := Executions{Completed: 1}
	for range 3 { // the second and third as after a reconnect
		counts.add(record(5, 2, core.StatusStarted))
		counts.add(record(6, 2, core.StatusCompleted))
		assert.Equal(t, want, counts.summary.Tools)
	}
	counts.add(record(0, 2, core.StatusRecovered))
	assert.Equal(t, want, counts.summary.Tools, "the outcome of generation 2 was counted")
	for range 2 {
		counts.add(record(0, 1, core.StatusRecovered))
		want.Recovered = 1
		assert.Equal(t, want, counts.summary.Tools, "that of generation 1 was not")
	}
}
