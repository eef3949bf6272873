package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

var ledgerBegin = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)

// history returns the records numbered from 1, a second apart, in one generation.
func history(t *testing.T, records ...record.Record) []record.Record {
	t.Helper()
	for i := range records {
		r := &records[i]
		r.RunID, r.Seq, r.Generation, r.Time = "run-1", uint64(i)+1, max(r.Generation, 1), ledgerBegin.Add(time.Duration(i)*time.Second)
	}
	return records
}

// of returns a record of the given kind and status about the call, question or answer at path.
func of(t *testing.T, path string, k record.Kind, s record.Status, change ...func(*record.Record)) record.Record {
	t.Helper()
	a, err := record.ParseAddress(path)
	require.NoError(t, err)
	r := record.Record{Address: a, Name: "x", Kind: k, Status: s}
	for _, f := range change {
		f(&r)
	}
	return r
}

func attempt(n int) func(*record.Record) { return func(r *record.Record) { r.Attempt = n } }
func again(r *record.Record)             { r.WillRetry = true }
func named(id string) func(*record.Record) {
	return func(r *record.Record) { r.Name = id }
}

func added(records []record.Record, l *record.Ledger) *record.Ledger {
	for i := range records {
		l.Add(&records[i])
	}
	return l
}

func TestQuestionInsideAnAttemptThatFailedIsMoot(t *testing.T) {
	records := history(t,
		of(t, "agent", record.KindAgent, record.StatusStarted),
		of(t, "agent/ask", record.KindTool, record.StatusStarted),
		of(t, "agent/ask", record.KindQuestion, record.StatusAwaiting, named("agent/ask?1")),
		of(t, "agent", record.KindQuestion, record.StatusAwaiting, named("agent?1")),
		of(t, "agent", record.KindAgent, record.StatusFailed, again),
	)
	l := added(records[:4], new(record.Ledger))
	require.Len(t, l.Questions(false), 2)
	change := l.Add(&records[4])
	require.Len(t, change.Closed, 1)
	assert.Equal(t, "agent/ask?1", change.Closed[0].ID, "the question of the failed attempt")
	require.Len(t, l.Questions(false), 1, "the questions of an agent are not numbered by attempts")

	cancelled := history(t, of(t, "", record.KindRun, record.StatusCancelled))[0]
	cancelled.Seq = 6
	assert.Len(t, l.Add(&cancelled).Closed, 1)
	assert.Empty(t, l.Questions(true))
}

// After a cancel, nobody can answer, and no wait ends.
func TestCallsOfACancelledRunWaitForNothing(t *testing.T) {
	waits := func(k record.AwaitKind) func(*record.Record) {
		return func(r *record.Record) {
			r.Err = &record.InterruptedError{Reason: record.InterruptAwait, Question: r.Address.String() + "?1", Awaits: k}
		}
	}
	l := added(history(t,
		of(t, "", record.KindRun, record.StatusStarted),
		of(t, "agent", record.KindAgent, record.StatusStarted),
		of(t, "agent/ask", record.KindTool, record.StatusStarted),
		of(t, "agent/ask", record.KindQuestion, record.StatusAwaiting, named("agent/ask?1")),
		of(t, "agent/ask", record.KindTool, record.StatusAwaiting, waits(record.AwaitAnswer)),
		of(t, "agent/sleep", record.KindTool, record.StatusStarted),
		of(t, "agent/sleep", record.KindTool, record.StatusAwaiting, waits(record.AwaitTime)),
		of(t, "agent", record.KindAgent, record.StatusAwaiting, waits(record.AwaitAnswer)),
		of(t, "", record.KindRun, record.StatusAwaiting),
	), new(record.Ledger))
	counts := l.Counts()
	require.Equal(t, [2]record.Stock{{Asking: 1}, {Asking: 1, Waiting: 1}}, [2]record.Stock{counts.Agents, counts.Tools})
	cancelled := history(t, of(t, "", record.KindRun, record.StatusCancelled))[0]
	cancelled.Seq = l.Last + 1
	l.Add(&cancelled)
	counts = l.Counts()
	assert.Equal(t, [2]record.Stock{{Stopped: 1}, {Stopped: 2}}, [2]record.Stock{counts.Agents, counts.Tools})
}

func TestLedgerThatBeginsInTheMiddle(t *testing.T) {
	records := history(t,
		of(t, "", record.KindRun, record.StatusStarted),
		of(t, "tool", record.KindTool, record.StatusStarted),
		of(t, "tool", record.KindTool, record.StatusFailed, again),
		of(t, "tool", record.KindTool, record.StatusRetrying, attempt(1)),
		of(t, "tool", record.KindTool, record.StatusStarted, attempt(1)),
		of(t, "tool", record.KindTool, record.StatusCompleted, attempt(1)),
	)
	for from := range records[1:] {
		l := added(records[from+1:], new(record.Ledger))
		counts := l.Counts()
		assert.Equal(t, record.Stock{Completed: 1}, counts.Tools, "from record %d", from+2)
		assert.Equal(t, [4]int{2, 1, 1, 0}, [4]int{counts.Attempts, counts.Begun, counts.Retries, counts.Repeats}, "attempts are counted by their numbers, from record %d", from+2)
		assert.Equal(t, uint64(from+2), l.First)
	}

	recalled := of(t, "other", record.KindTool, record.StatusRecovered)
	recalled.Replayed, recalled.Generation = true, 1
	late := new(record.Ledger)
	opening := records[0]
	opening.Generation, opening.Seq = 2, 7
	late.Add(&opening)
	for range 2 {
		late.Add(&recalled)
	}
	counts := late.Counts()
	assert.Equal(t, record.Stock{Restored: 1}, counts.Tools, "once for each call")
	assert.Equal(t, 2, counts.Recalled)
	known := added(records, new(record.Ledger))
	known.Add(&recalled)
	counts = known.Counts()
	assert.Zero(t, counts.Tools.Restored, "an outcome that was seen before is not counted as restored")
}

func TestRecordsThatWereNotKeptAreReplaced(t *testing.T) {
	records := history(t,
		of(t, "", record.KindRun, record.StatusStarted),
		of(t, "tool", record.KindTool, record.StatusStarted),
		of(t, "tool", record.KindTool, record.StatusCompleted),
	)
	l := added(records, new(record.Ledger))
	assert.True(t, l.Add(&records[2]).Ignored, "published again")
	opening := records[0]
	opening.Seq, opening.Generation = 2, 2
	assert.True(t, l.Add(&opening).Rewound, "the records of the tool were lost in a crash")
	next := records[1]
	next.Seq, next.Generation = 3, 2
	l.Add(&next)
	assert.Equal(t, uint64(3), l.Last)
	assert.False(t, l.Gaps)
	next.Seq = 9
	l.Add(&next)
	assert.True(t, l.Gaps)
}

func TestLedgerFollowsOnlySomeCalls(t *testing.T) {
	records := history(t,
		of(t, "a", record.KindTool, record.StatusStarted),
		of(t, "b", record.KindTool, record.StatusStarted),
		of(t, "b", record.KindTool, record.StatusCompleted, attempt(2)),
		of(t, "a", record.KindTool, record.StatusCompleted),
	)
	l := &record.Ledger{Limit: 1}
	l.Add(&records[0])
	assert.Nil(t, l.Add(&records[1]).Call)
	added(records[2:], l)
	counts := l.Counts()
	assert.Equal(t, record.Stock{Completed: 2}, counts.Tools)
	assert.Equal(t, 4, counts.Attempts)
}

func TestTransitionHasThePreviousState(t *testing.T) {
	records := history(t,
		of(t, "", record.KindRun, record.StatusStarted),
		of(t, "tool", record.KindTool, record.StatusStarted),
		of(t, "tool", record.KindTool, record.StatusFailed, again),
		of(t, "tool", record.KindTool, record.StatusRetrying, attempt(1)),
		of(t, "tool", record.KindTool, record.StatusStarted, attempt(1)),
		of(t, "", record.KindRun, record.StatusInterrupted),
	)
	l := added(records[:4], new(record.Ledger))
	change := l.Add(&records[4])
	assert.Equal(t, record.StateWaiting, change.From)
	assert.Equal(t, record.StateRunning, change.Call.State)
	assert.True(t, change.Call.IsActive())
	assert.Equal(t, time.Second, change.Waited)
	l.Add(&records[5])
	call := l.Call(records[4].Address)
	require.NotNil(t, call)
	assert.Equal(t, record.StateStopped, call.State)
	assert.True(t, call.Closed, "it did not crash")
	assert.Equal(t, record.StatusInterrupted, l.Status)
}

// TestLastErrorIsNotOneThatItsCallHasOvercome adds the records of a run whose agent failed because
// its model failed. The failed calls are then made again.
func TestLastErrorIsNotOneThatItsCallHasOvercome(t *testing.T) {
	replaces := func(r *record.Record) {
		r.Detail = &record.Detail{Replaces: &record.Replaced{Seq: 1, Status: record.StatusFailed, Attempts: 1}}
	}
	l := new(record.Ledger)
	for i, c := range []struct {
		record record.Record
		want   string // address of the call with the last error
	}{
		{of(t, "agent", record.KindAgent, record.StatusStarted), ""},
		{of(t, "agent/tool", record.KindTool, record.StatusStarted), ""},
		{of(t, "agent/tool", record.KindTool, record.StatusFailed, again), "agent/tool"},
		{of(t, "agent/tool", record.KindTool, record.StatusRetrying, attempt(1)), "agent/tool"},
		{of(t, "agent/tool", record.KindTool, record.StatusStarted, attempt(1)), "agent/tool"},
		{of(t, "agent/tool", record.KindTool, record.StatusCompleted, attempt(1)), ""},
		{of(t, "agent/model", record.KindLLM, record.StatusFailed), "agent/model"},
		{of(t, "agent/other", record.KindTool, record.StatusCompleted), "agent/model"},
		{of(t, "agent", record.KindAgent, record.StatusFailed), "agent"},
		{of(t, "", record.KindRun, record.StatusFailed), "agent"},
		{of(t, "agent", record.KindAgent, record.StatusStarted, replaces), ""},
		{of(t, "agent/model", record.KindLLM, record.StatusFailed, replaces), "agent/model"},
		{of(t, "agent/model", record.KindLLM, record.StatusStarted, replaces), ""},
	} {
		c.record.Seq, c.record.Generation = uint64(i)+1, 1
		l.Add(&c.record)
		failure, failed := l.LastError()
		assert.Equal(t, c.want, failure.Address.String(), "after record %d", i+1)
		assert.Equal(t, c.want != "", failed)
	}
}

// FuzzLedger decodes records from bytes. Whatever the records contain, the ledger must not panic,
// and the relations described at [record.Counts] must hold.
func FuzzLedger(f *testing.F) {
	f.Add([]byte{4, 1, 0, 0, 0, 1, 1, 0, 0, 1, 1, 2, 0, 0, 1, 1, 3, 1, 1, 1})
	f.Add([]byte{1, 1, 0, 9, 1, 1, 5, 1, 0, 2, 1, 1, 1, 9, 1, 8, 7, 0, 0, 1})
	paths := []string{"a", "a/b", "a@2/b", "a/group:g", "a/group:g/1", "a/group:g/1/c", "a@undo/b"}
	f.Fuzz(func(t *testing.T, data []byte) {
		ledgers := []*record.Ledger{{KeepEnded: true}, {}, {Limit: 2}}
		for i := 0; i+4 < len(data); i += 5 {
			b := data[i : i+5]
			r := of(t, paths[int(b[3])%len(paths)], record.Kind(b[0]%15), record.Status(b[1]%11), named("q"+string('0'+b[3]%4)))
			r.Attempt, r.WillRetry, r.Replayed = int(int8(b[2])), b[4]&1 != 0, b[4]&2 != 0
			r.Stage, r.Generation, r.Seq = record.Stage(b[4]>>4), uint64(b[3]%4), uint64(i/5)+uint64(b[4]&4)-uint64(b[4]&8)/4
			r.Delay, r.Time = time.Duration(int8(b[2]))*time.Second, ledgerBegin.Add(time.Duration(int8(b[3]))*time.Second)
			if b[4]&4 != 0 {
				r.Detail = &record.Detail{Awaits: record.AwaitKind(b[2] % 5), Replaces: &record.Replaced{Seq: uint64(b[2]), Status: record.Status(b[3] % 5), Attempts: int(int8(b[4]))}}
				r.Err = &record.InterruptedError{Reason: record.InterruptReason(paths[b[2]%7]), Question: "q" + string('0'+b[2]%4), Awaits: record.AwaitKind(b[2] % 5)}
			}
			for _, l := range ledgers {
				l.Add(&r)
				counts := l.Counts()
				all := counts.All()
				require.Equal(t, counts.Attempts, counts.Begun+counts.Retries+counts.Repeats)
				if l.KeepEnded { // otherwise the ledger cannot check which outcome a record replaces
					require.LessOrEqual(t, counts.Begun, all.Calls())
				}
				require.GreaterOrEqual(t, counts.Outcomes, all.Completed+all.Failed)
				for _, n := range []int{all.Running, all.Waiting, all.Asking, all.Stopped, all.Completed, all.Failed, all.Restored} {
					require.GreaterOrEqual(t, n, 0)
				}
				require.GreaterOrEqual(t, counts.Waited, time.Duration(0))
				_, _, _ = l.Questions(true), l.Interrupts(), l.OpeningCounts()
			}
		}
	})
}
