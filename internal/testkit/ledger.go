package testkit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// RequireLedger checks what a ledger shows for the records of a run. It checks the sums after every
// record. After the last record, and after each record for which at returns true, it also compares
// the ledger with counts that it computes anew, according to the definitions, from all records so
// far. A reader that is based on the ledger could not find errors in the ledger. RequireLedger also
// checks that each call has begun its attempts as the call's earlier records require.
func RequireLedger(t testing.TB, records []record.Record, at func(i int) bool) {
	t.Helper()
	whole, open := &record.Ledger{KeepEnded: true}, new(record.Ledger)
	for i := range records {
		requireNext(t, whole, &records[i])
		whole.Add(&records[i])
		open.Add(&records[i])
		counts := whole.Counts()
		if counts != open.Counts() || whole.OpeningCounts() != open.OpeningCounts() {
			require.Equal(t, counts, open.Counts(), "without the calls that have ended, after %s", line(&records[i]))
			require.Equal(t, whole.OpeningCounts(), open.OpeningCounts())
		}
		requireSums(t, &counts, &records[i])
		if i == len(records)-1 && len(records) <= maxRecounted || at != nil && at(i) {
			before := records[:i+1]
			require.Equal(t, countOf(before), counts, "after %s, record %d of\n%s", line(&records[i]), i+1, lines(before))
			require.Equal(t, openQuestionsOf(before), idsOf(whole.Questions(true)), "questions after %s, record %d of\n%s", line(&records[i]), i+1, lines(before))
			require.Equal(t, whole.Interrupts(), open.Interrupts())
			requireLastError(t, before, whole, open)
		}
	}
	if at != nil {
		requireSameFromSnapshot(t, whole, records)
	}
}

// requireLastError checks the last error in the ledgers. It must be the error of the latest failed
// attempt. If the call of that attempt completed later, or was made again after it had an outcome,
// there must be no last error.
func requireLastError(t testing.TB, records []record.Record, ledgers ...*record.Ledger) {
	t.Helper()
	var want *record.Record
	overcome := make(map[record.Address]bool)
	for i := len(records) - 1; i >= 0 && want == nil; i-- {
		r := &records[i]
		switch {
		case !r.Kind.IsCall():
		case r.Status == record.StatusFailed:
			want = r
		case r.Status == record.StatusCompleted || r.Detail != nil && r.Detail.Replaces != nil:
			overcome[r.Address] = true
		}
	}
	for _, l := range ledgers {
		got, failed := l.LastError()
		require.Equal(t, want != nil && !overcome[want.Address], failed, "last error after %s", line(&records[len(records)-1]))
		if failed {
			require.Equal(t, [3]any{want.Address, want.Class, want.Time}, [3]any{got.Address, got.Class, got.Time})
		}
	}
}

// maxRecounted is the maximum number of records for which everything is recounted, since recounting
// takes quadratic time.
const maxRecounted = 1000

func requireSums(t testing.TB, c *record.Counts, after *record.Record) {
	t.Helper()
	all := c.All()
	hold := c.Attempts == c.Begun+c.Retries+c.Repeats && c.Begun <= all.Calls() && c.Outcomes >= all.Completed+all.Failed
	for _, s := range []record.Stock{c.Tools, c.LLMs, c.Agents, c.Steps, c.Compensations} {
		hold = hold && min(s.Running, s.Waiting, s.Asking, s.Stopped, s.Completed, s.Failed) >= 0 && s.Restored == 0
	}
	if !hold {
		require.FailNow(t, "the sums are wrong", "after %s: %+v", line(after), c)
	}
}

// requireSameFromSnapshot checks that a ledger is the same if the records are read from their
// stored form, where each record is decoded into the memory of the previous one.
func requireSameFromSnapshot(t testing.TB, want *record.Ledger, records []record.Record) {
	t.Helper()
	data, err := (&snapshot.Snapshot{Info: snapshot.Info{RunID: "run-1", LastSeq: uint64(len(records))}, Records: records}).Encode()
	require.NoError(t, err)
	run, err := snapshot.Decode(data)
	require.NoError(t, err)
	var got record.Ledger
	for r, err := range run.Scan() {
		require.NoError(t, err)
		got.Add(r)
	}
	require.Equal(t, want.Counts(), got.Counts())
	for i, q := range want.Questions(true) {
		again := got.Questions(true)[i]
		require.Equal(t, [3]string{q.ID, q.Text, string(q.Schema)}, [3]string{again.ID, again.Text, string(again.Schema)})
	}
}

// countOf counts the records according to the definitions of record.Counts.
func countOf(records []record.Record) (c record.Counts) {
	ofCalls := make(map[record.Address][]int)
	for i := range records {
		if k := records[i].Kind; k.IsCall() {
			c.Usage = c.Usage.Plus(records[i].Used())
			if !k.IsParallel() {
				ofCalls[records[i].Address] = append(ofCalls[records[i].Address], i)
			}
		}
	}
	for _, own := range ofCalls {
		countCall(&c, records, own)
	}
	c.Took = openFor(records)
	return c
}

// countCall counts one call. own contains the indices of the call's records.
func countCall(c *record.Counts, records []record.Record, own []int) {
	highest := -1
	for n, i := range own {
		r := &records[i]
		switch {
		case r.Status == record.StatusStarted:
			c.Attempts++
			switch {
			case r.Attempt <= highest:
				c.Repeats++
			case highest < 0:
				c.Begun++
			default:
				c.Retries++
			}
			highest = max(highest, r.Attempt)
		case r.WillRetry:
			c.WillRetry++
		case r.IsOutcome():
			countOutcome(c, r)
		}
		c.Waited += waitAfter(records, own, n)
	}
	last := &records[own[len(own)-1]]
	stock := map[record.Kind]*record.Stock{
		record.KindTool: &c.Tools, record.KindLLM: &c.LLMs, record.KindAgent: &c.Agents,
		record.KindStep: &c.Steps, record.KindCompensation: &c.Compensations,
	}[last.Kind]
	after := records[own[len(own)-1]:]
	state := stateOf(last, slices.ContainsFunc(after, isOfRun), slices.ContainsFunc(after, isCancel))
	map[record.State]func(){
		record.StateRunning: func() { stock.Running++ }, record.StateWaiting: func() { stock.Waiting++ }, record.StateAsking: func() { stock.Asking++ },
		record.StateStopped: func() { stock.Stopped++ }, record.StateCompleted: func() { stock.Completed++ }, record.StateFailed: func() { stock.Failed++ },
	}[state]()
	if highest > 0 {
		c.Retried++
		switch state {
		case record.StateCompleted:
			c.RetriedCompleted++
		case record.StateFailed:
			c.RetriedFailed++
		}
	}
}

func countOutcome(c *record.Counts, r *record.Record) {
	c.Outcomes++
	if r.Detail != nil && r.Detail.Cached {
		c.Cached++
	}
	if r.Reason.IsExhaustion() {
		c.Exhausted++
	}
	if r.Kind == record.KindCompensation && r.Status == record.StatusCompleted {
		c.Undone++
	} else if r.Kind == record.KindCompensation {
		c.NotUndone++
	}
}

func stateOf(last *record.Record, closedAfter, cancelledAfter bool) record.State {
	switch {
	case last.Status == record.StatusCompleted:
		return record.StateCompleted
	case last.IsOutcome():
		return record.StateFailed
	case cancelledAfter:
		return record.StateStopped
	case last.Status == record.StatusAwaiting && last.Awaits() == record.AwaitTime:
		return record.StateWaiting
	case last.Status == record.StatusAwaiting:
		return record.StateAsking
	case last.Status == record.StatusInterrupted || closedAfter:
		return record.StateStopped
	case last.Status == record.StatusStarted:
		return record.StateRunning
	}
	return record.StateWaiting
}

func isOfRun(r record.Record) bool   { return r.Kind == record.KindRun }
func isCancel(r record.Record) bool  { return isOfRun(r) && r.Status == record.StatusCancelled }
func isOpening(r record.Record) bool { return isOfRun(r) && r.Status == record.StatusStarted }

// waitAfter returns how long a call waited, while the run was open, after the n-th of its records.
func waitAfter(records []record.Record, own []int, n int) time.Duration {
	at := own[n]
	r := &records[at]
	next := len(records) - 1
	isNext := n+1 < len(own)
	if isNext {
		next = own[n+1]
	}
	var waited time.Duration
	closed := slices.IndexFunc(records[at:], isOfRun)
	if waits := r.Status == record.StatusRetrying || r.Status == record.StatusAwaiting && r.Awaits() == record.AwaitTime; waits {
		switch {
		case closed >= 0 && at+closed <= next && isOpening(records[at+closed]): // the process crashed
			waited = latest(records[:at+closed]).Sub(r.Time)
		case closed >= 0 && at+closed <= next:
			waited = records[at+closed].Time.Sub(r.Time)
		case isNext:
			waited = records[next].Time.Sub(r.Time)
		}
	}
	due, waits := dueAfter(records, own[:n+1])
	if !waits || !isNext {
		return waited
	}
	for i := next; i > at; i-- { // the rest of the wait, from the opening in which the call continued
		if isOpening(records[i]) {
			end := records[next].Time
			if due.Before(end) {
				end = due
			}
			return waited + max(0, end.Sub(records[i].Time))
		}
	}
	return waited
}

// dueAfter returns when a call's next attempt is due after the last of its records, and
// reports whether an attempt is planned.
func dueAfter(records []record.Record, own []int) (due time.Time, planned bool) {
	for _, i := range own {
		r := &records[i]
		switch {
		case r.WillRetry || r.Status == record.StatusRetrying || r.IsParked():
			due, planned = r.Time.Add(r.Delay), true
		case r.IsSuspension() && r.Stage != record.StageHandler && r.Stage != record.StageIntercept:
		default:
			planned = false
		}
	}
	return due, planned
}

// openFor returns how long the run was open: the sum of the durations of all openings, each
// measured up to its last record.
func openFor(records []record.Record) (took time.Duration) {
	from := 0
	for i := 1; i <= len(records); i++ {
		if i == len(records) || isOpening(records[i]) {
			took += max(0, latest(records[:i]).Sub(records[from].Time))
			from = i
		}
	}
	return took
}

// latest returns the latest time at which the run was open. It ignores answers, which may arrive at
// any time. Calls are recorded concurrently, so the last record may not have the latest time.
func latest(records []record.Record) (at time.Time) {
	for i := range records {
		if r := &records[i]; r.Kind != record.KindAnswer && r.Time.After(at) {
			at = r.Time
		}
	}
	return at
}

// openQuestionsOf returns the IDs of the open questions, in the order in which they were asked.
func openQuestionsOf(records []record.Record) []string {
	var open []string
	for i := range records {
		q := &records[i]
		if q.Kind == record.KindQuestion && isOpenIn(q, records[i+1:]) {
			open = append(open, q.Name)
		}
	}
	return open
}

func isOpenIn(q *record.Record, after []record.Record) bool {
	open := true
	for i := range after {
		r := &after[i]
		named := r.Kind.IsCall() && r.Interrupt() != nil && r.Interrupt().Question == q.Name
		switch {
		case r.Kind == record.KindAnswer && r.Name == q.Name, r.Kind == record.KindQuestion && r.Name == q.Name:
			return false
		case r.Kind == record.KindRun && r.Status == record.StatusCancelled:
			open = false
		case r.IsOutcome() && (r.Address == q.Address || isInside(q.Address.String(), r.Address.String())):
			open = false
		case r.WillRetry && strings.HasPrefix(q.Address.String(), r.Address.Path(r.Attempt)+"/"):
			open = false
		case r.Status == record.StatusAwaiting && named:
			open = true
		}
	}
	return open
}

func isInside(path, call string) bool {
	return strings.HasPrefix(path, call+"/") || strings.HasPrefix(path, call+"@")
}

func idsOf(questions []*record.Question) (ids []string) {
	for _, q := range questions {
		ids = append(ids, q.ID)
	}
	return ids
}

func line(r *record.Record) string {
	text := r.Address.String() + " " + r.Kind.String() + " " + r.Status.String()
	if r.WillRetry {
		text += " (again)"
	}
	return text + " " + r.Name + " " + r.Stage.String() + " " + r.Time.Format("04:05.000000")
}

func lines(records []record.Record) string {
	var b strings.Builder
	for i := range records {
		b.WriteString(line(&records[i]) + "\n")
	}
	return b.String()
}
