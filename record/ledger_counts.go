package record

import (
	"maps"
	"time"
)

// Counts counts the calls and attempts of a run. The calls are those of tools, LLMs, agents, steps
// and compensations. Groups and branches do no more than contain calls, and are not counted.
//
// There are two kinds of numbers. A stock is the number of calls that are currently in a given
// state; it can rise and fall. A flow is the number of times that something has happened; it can
// only grow. The counts for a run and for its latest opening differ only in the flows. These
// relations hold after every record:
//
//	Calls    = Running + Waiting + Asking + Stopped + Completed + Failed + Restored, for each kind
//	Calls    = those of all kinds together
//	Attempts = Begun + Retries + Repeats
//	Begun   <= Calls: the others were refused, or stopped before their first attempt
//	Outcomes >= Completed + Failed: the others were replaced by another attempt
type Counts struct {
	// Stocks, by kind of call.
	Tools, LLMs, Agents, Steps, Compensations Stock

	Retried          int // calls that had a second attempt
	RetriedCompleted int // of Retried: calls that completed
	RetriedFailed    int // of Retried: calls that failed for good

	// Flows.
	Attempts  int // attempts that began
	Begun     int // of Attempts: first attempts of calls
	Retries   int // of Attempts: attempts with a new number, after a failed attempt
	Repeats   int // of Attempts: those with the number of an earlier one that was interrupted or lost, or whose outcome was replaced
	WillRetry int // failed attempts that will be retried
	Outcomes  int
	Cached    int // of Outcomes: from a cache
	Exhausted int // of Outcomes: no attempt, no time or no retry budget was left
	Undone    int // of Outcomes: compensations that completed
	NotUndone int // of Outcomes: compensations that failed
	Recalled  int // outcomes that were recalled; stored records do not contain this number

	Waited time.Duration // the total time that calls waited, while the run was open, for their next attempts and in suspended sleeps
	Took   time.Duration // the time that the run was open, from record to record
	Usage  Usage         // usage of all attempts, including failed ones
}

// Stock holds the number of calls in each state.
type Stock struct {
	Running, Waiting, Asking, Stopped, Completed, Failed, Restored int
}

// Calls returns the number of calls.
func (s Stock) Calls() int {
	return s.Running + s.Waiting + s.Asking + s.Stopped + s.Completed + s.Failed + s.Restored
}

// Plus returns the sum of s and t.
func (s Stock) Plus(t Stock) Stock {
	return Stock{
		s.Running + t.Running, s.Waiting + t.Waiting, s.Asking + t.Asking, s.Stopped + t.Stopped,
		s.Completed + t.Completed, s.Failed + t.Failed, s.Restored + t.Restored,
	}
}

// at returns the counter for the state. For an unknown state, it returns a counter that nothing
// reads.
func (s *Stock) at(state State) *int {
	switch state {
	case StateRunning:
		return &s.Running
	case StateWaiting:
		return &s.Waiting
	case StateAsking:
		return &s.Asking
	case StateStopped:
		return &s.Stopped
	case StateCompleted:
		return &s.Completed
	case StateFailed:
		return &s.Failed
	case StateRestored:
		return &s.Restored
	}
	return new(int)
}

// All returns the sum of the stocks over all kinds of calls.
func (c Counts) All() Stock {
	return c.Tools.Plus(c.LLMs).Plus(c.Agents).Plus(c.Steps).Plus(c.Compensations)
}

// stock returns the stock for calls of kind k.
func (c *Counts) stock(k Kind) *Stock {
	switch k {
	case KindTool:
		return &c.Tools
	case KindLLM:
		return &c.LLMs
	case KindAgent:
		return &c.Agents
	case KindStep:
		return &c.Steps
	case KindCompensation:
		return &c.Compensations
	}
	return new(Stock)
}

// Plus returns the sum of c and d.
func (c Counts) Plus(d Counts) Counts {
	c.Tools, c.LLMs, c.Agents = c.Tools.Plus(d.Tools), c.LLMs.Plus(d.LLMs), c.Agents.Plus(d.Agents)
	c.Steps, c.Compensations = c.Steps.Plus(d.Steps), c.Compensations.Plus(d.Compensations)
	c.Retried += d.Retried
	c.RetriedCompleted += d.RetriedCompleted
	c.RetriedFailed += d.RetriedFailed
	c.addFlows(&d, 1)
	c.Usage = c.Usage.Plus(d.Usage)
	return c
}

// since returns c with the flows in before subtracted from its flows. Usage is not changed.
func (c Counts) since(before *Counts) Counts {
	c.addFlows(before, -1)
	return c
}

func (c *Counts) addFlows(d *Counts, n int) {
	c.Attempts += n * d.Attempts
	c.Begun += n * d.Begun
	c.Retries += n * d.Retries
	c.Repeats += n * d.Repeats
	c.WillRetry += n * d.WillRetry
	c.Outcomes += n * d.Outcomes
	c.Cached += n * d.Cached
	c.Exhausted += n * d.Exhausted
	c.Undone += n * d.Undone
	c.NotUndone += n * d.NotUndone
	c.Recalled += n * d.Recalled
	c.Waited += time.Duration(n) * d.Waited
	c.Took += time.Duration(n) * d.Took
}

// count adds the call to the stocks if n is 1, and removes it if n is -1.
func (l *Ledger) count(call *Call, n int) {
	if call.Kind.IsParallel() || call.State == StateNew {
		return
	}
	*l.counts.stock(call.Kind).at(call.State) += n
	if call.State == StateStopped && call.stopReason != "" {
		l.countStopReason(call.stopReason, n)
	}
	if call.Highest < 2 {
		return
	}
	l.counts.Retried += n
	switch call.State {
	case StateCompleted:
		l.counts.RetriedCompleted += n
	case StateFailed:
		l.counts.RetriedFailed += n
	}
}

// countFlow counts the event that r reports for the call.
func (l *Ledger) countFlow(call *Call, r *Record) {
	if r.Kind.IsParallel() {
		return
	}
	n := &l.counts
	switch {
	case r.Status == StatusStarted && int64(r.Attempt) < int64(call.Highest):
		n.Attempts++
		n.Repeats++
	case r.Status == StatusStarted:
		l.countAttempts(call, r.Attempt+1)
	case r.Status == StatusCompleted || r.Status == StatusFailed || r.IsSuspension() && r.Stage == StageHandler:
		l.countAttempts(call, r.TotalAttempts()) // in case the start of the attempt was not seen
	}
	switch {
	case r.WillRetry && r.Status == StatusFailed:
		n.WillRetry++
	case r.IsOutcome():
		l.countOutcome(r)
	}
}

// countAttempts counts the attempts of the call up to the given number.
func (l *Ledger) countAttempts(call *Call, number int) {
	number = min(number, maxAttempts)
	more := number - int(call.Highest)
	if more <= 0 {
		return
	}
	n := &l.counts
	n.Attempts += more
	n.Retries += more
	if call.Highest == 0 {
		n.Begun++
		n.Retries--
	}
	call.Highest = int32(number)
}

func (l *Ledger) countOutcome(r *Record) {
	n := &l.counts
	n.Outcomes++
	if r.Detail != nil && r.Detail.Cached {
		n.Cached++
	}
	if r.Reason.IsExhaustion() {
		n.Exhausted++
	}
	switch {
	case r.Kind != KindCompensation:
	case r.Status == StatusCompleted:
		n.Undone++
	default:
		n.NotUndone++
	}
}

// maxReasons is the maximum number of different reasons for which the stopped calls are counted.
// Calls that stopped for any other reason are not counted.
const maxReasons = 32

// countStopReason adds n, which may be negative, to the number of calls that stopped for the given
// reason.
func (l *Ledger) countStopReason(reason InterruptReason, n int) {
	if l.stopsByReason[reason] == 0 && len(l.stopsByReason) >= maxReasons {
		return
	}
	if l.stopsByReason == nil {
		l.stopsByReason = make(map[InterruptReason]int)
	}
	if l.stopsByReason[reason] += n; l.stopsByReason[reason] <= 0 {
		delete(l.stopsByReason, reason)
	}
}

// Interrupts returns how many calls are stopped for each reason, for up to 32 reasons. It returns
// nil if there are none. Calls that stopped because the run was closed or crashed have no reason of
// their own and are not included.
func (l *Ledger) Interrupts() map[InterruptReason]int {
	if len(l.stopsByReason) == 0 {
		return nil
	}
	return maps.Clone(l.stopsByReason)
}
