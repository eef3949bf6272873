package printer

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

func TestCallsWithAnOutcomeAreForgotten(t *testing.T) {
	const limit = 8
	counts := newCounts(limit)
	add := func(path string, status record.Status) {
		a, err := record.ParseAddress(path)
		require.NoError(t, err)
		counts.add(&record.Record{RunID: "r", Kind: record.KindAgent, Status: status, Address: a})
	}
	add("outer", record.StatusStarted)
	for i := range 1000 {
		add(fmt.Sprintf("outer/inner#%d", i+2), record.StatusStarted)
		add(fmt.Sprintf("outer/inner#%d", i+2), record.StatusCompleted)
		require.LessOrEqual(t, counts.open, 1)
	}
	add("outer", record.StatusCompleted)
	require.Zero(t, counts.open)
	assert.Equal(t, Summary{Counts: record.Counts{Agents: record.Stock{Completed: 1001}, Attempts: 1001, Begun: 1001, Outcomes: 1001}}, counts.total())
}

func TestCountsAreBoundedWhereNothingEnds(t *testing.T) {
	const limit = 8
	counts := newCounts(limit)
	add := func(status record.Status, total int) {
		for i := range total {
			counts.add(&record.Record{RunID: fmt.Sprint(i), Kind: record.KindTool, Status: status})
			require.LessOrEqual(t, counts.open, limit)
			require.LessOrEqual(t, len(counts.runs), maxRuns)
		}
	}
	add(record.StatusStarted, 2*maxRuns)
	assert.Equal(t, Summary{Counts: record.Counts{Tools: record.Stock{Running: limit}, Attempts: limit, Begun: limit}}, counts.total())
	add(record.StatusCompleted, 1000)
	s := counts.total()
	assert.Equal(t, 1000, s.Tools.Completed, "calls that are not tracked count when they end")
	assert.Zero(t, s.Tools.Running)
}

func TestRepublishedRecordsCountOnce(t *testing.T) {
	counts := newCounts(maxFollowed)
	a, err := record.ParseAddress("tool")
	require.NoError(t, err)
	rec := func(seq, generation uint64, status record.Status) *record.Record {
		return &record.Record{RunID: "r", Seq: seq, Generation: generation, Kind: record.KindTool, Status: status, Address: a, Replayed: seq == 0}
	}
	want := record.Stock{Completed: 1}
	for range 3 { // the second and third time are as after a reconnect
		counts.add(rec(5, 2, record.StatusStarted))
		counts.add(rec(6, 2, record.StatusCompleted))
		assert.Equal(t, want, counts.total().Tools)
	}
	counts.add(rec(0, 2, record.StatusRecovered))
	assert.Equal(t, want, counts.total().Tools, "the outcome of generation 2 was counted")
	for range 2 {
		counts.add(rec(0, 1, record.StatusRecovered))
		want.Restored = 1
		assert.Equal(t, want, counts.total().Tools, "the outcome of generation 1 was not counted")
	}
}

// A paused run that is opened without an answer publishes a record without storing it. The next
// opening counts from the last record that was stored.
func TestRecordsAfterUnstoredOnesCount(t *testing.T) {
	counts := newCounts(maxFollowed)
	a, err := record.ParseAddress("tool")
	require.NoError(t, err)
	rec := func(seq, generation uint64, status record.Status) *record.Record {
		return &record.Record{RunID: "r", Seq: seq, Generation: generation, Kind: record.KindTool, Status: status, Address: a}
	}
	counts.add(rec(2, 1, record.StatusStarted))
	counts.add(rec(3, 1, record.StatusAwaiting))
	counts.add(rec(4, 2, record.StatusStarted)) // not stored
	counts.add(rec(5, 2, record.StatusAwaiting))
	counts.add(rec(4, 3, record.StatusStarted))
	counts.add(rec(5, 3, record.StatusCompleted))
	assert.Equal(t, record.Stock{Completed: 1}, counts.total().Tools)
	counts.add(rec(5, 3, record.StatusCompleted))
	assert.Equal(t, record.Stock{Completed: 1}, counts.total().Tools, "the record was counted before")
}
