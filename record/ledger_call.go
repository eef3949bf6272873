package record

import (
	"time"
)

// A Call is the state of a call in a [Ledger].
type Call struct {
	Progress
	Address Address
	Name    string // name of the actor
	Kind    Kind
	State   State // what the call is doing
	Highest int32 // number of attempts that began, according to the highest attempt number
	Closed  bool  // the run was closed after the call's latest record, and did not crash

	// The fields below are taken from the latest record.
	Status      Status
	LastAttempt int32 // Record.Attempt of that record
	MaxAttempts int32 // negative for no limit
	At          time.Time
	Class       Class
	DelaySource Source
	Cause       error // error of the failure or suspension; if a retry starts, that of the previous attempt

	stopReason   InterruptReason // why the call stopped; empty if no record says so
	suspended    bool            // the call waits for something that does not need the process
	waiting      bool            // the call is waiting; the wait began at since and ends by until
	maybeWaiting bool            // may have waited since the run was opened, if the program has reached the call
	since        time.Time
	until        time.Time // zero if there is no limit
}

// IsActive reports whether the process is executing the call or waiting for the call's next
// attempt.
func (c *Call) IsActive() bool {
	return c.State == StateRunning || c.State == StateWaiting && !c.suspended
}

// follow starts to follow the call of r. It returns nil if too many calls are already followed.
func (l *Ledger) follow(r *Record) *Call {
	if l.Limit != 0 && l.NumOpen() >= l.Limit && !r.IsOutcome() {
		return nil
	}
	var call *Call
	if n := len(l.spare); n > 0 {
		call, l.spare = l.spare[n-1], l.spare[:n-1]
	} else {
		call = new(Call)
	}
	l.settle()
	*call = Call{Address: r.Address, Name: r.Name, Kind: r.Kind}
	l.newest = call
	return call
}

// settle moves the newest call into the map. Most calls end before another call begins, and are
// therefore never put into the map.
func (l *Ledger) settle() {
	if l.newest == nil {
		return
	}
	if l.open == nil {
		l.open = make(map[Address]*Call)
	}
	l.open[l.newest.Address] = l.newest
	l.newest = nil
}

func (l *Ledger) addCall(r *Record, c *Transition) {
	if r.Detail != nil && !r.Detail.Usage.IsZero() {
		l.counts.Usage = l.counts.Usage.Plus(r.Detail.Usage)
	}
	call := l.find(r.Address)
	if call == nil {
		if call = l.follow(r); call == nil {
			return
		}
		l.restoreReplaced(call, r)
	} else if call.Kind.IsParallel() != r.Kind.IsParallel() {
		c.Ignored = true // a group or branch never has the same address as another call
		return
	} else if l.KeepEnded && !call.isOpen() {
		delete(l.ended, r.Address)
		l.settle()
		l.newest = call
	}
	c.Call, c.From = call, call.State
	l.count(call, -1)
	call.Kind, call.Name = r.Kind, r.Name
	c.Waited = l.endWait(call, r.Time)
	l.countFlow(call, r)
	call.Add(r)
	call.Closed, call.suspended = false, false
	call.setLatest(r)
	l.move(call, r, c)
	l.count(call, 1)
	if !call.isOpen() {
		l.end(call)
	}
}

// restoreReplaced restores the state that a call had when the ledger counted the call and dropped it.
func (l *Ledger) restoreReplaced(call *Call, r *Record) {
	if l.KeepEnded || r.Detail == nil || r.Detail.Replaces == nil || l.First == 0 {
		return
	}
	replaced := r.Detail.Replaces
	state := StateCompleted
	if replaced.Status == StatusFailed {
		state = StateFailed
	}
	if replaced.Seq < l.First || l.Gaps || *l.counts.stock(r.Kind).at(state) == 0 {
		return // it was not counted
	}
	call.State, call.Highest = state, int32(max(0, min(replaced.Attempts, maxAttempts)))
}

// maxAttempts is the number at which the ledger stops counting the attempts of a call.
const maxAttempts = 1 << 30

// move puts the call into its new state.
func (l *Ledger) move(call *Call, r *Record, c *Transition) {
	switch r.Status {
	case StatusStarted:
		call.State = StateRunning
	case StatusRetrying:
		call.State = StateWaiting
		call.wait(r.Time)
	case StatusCompleted:
		call.State = StateCompleted
		l.questions.closeInside(call.Address, c)
	case StatusFailed:
		if !r.WillRetry {
			call.State = StateFailed
			l.questions.closeInside(call.Address, c)
			return
		}
		call.State = StateWaiting
		call.wait(r.Time)
		if r.Kind.IsEntered() {
			l.questions.closeInsideAttempt(r, c)
		}
	case StatusInterrupted:
		call.State, call.stopReason = StateStopped, ""
		if e := r.Interrupt(); e != nil {
			call.stopReason = e.Reason
		}
	case StatusAwaiting:
		call.State, call.suspended = StateAsking, true
		if r.Awaits() == AwaitTime {
			call.State = StateWaiting
			call.wait(r.Time)
		}
		if e := r.Interrupt(); e != nil {
			c.Asked = l.questions.reopen(e.Question)
		}
	}
}

// setLatest sets the fields that come from the latest record.
func (c *Call) setLatest(r *Record) {
	c.Status, c.LastAttempt, c.MaxAttempts = r.Status, clamp(r.Attempt), clamp(r.MaxAttempts)
	c.At, c.DelaySource, c.Class, c.Cause = r.Time, r.DelaySource, r.Class, r.Err
}

func clamp(n int) int32 { return int32(max(-maxAttempts, min(n, maxAttempts))) }

// NextAttemptAt returns when the next attempt may begin, or the zero Time if none is planned.
func (c *Call) NextAttemptAt() time.Time {
	if c.Phase != StateWaiting {
		return time.Time{}
	}
	return c.Since.Add(c.Delay)
}

func (c *Call) isOpen() bool { return c.State != StateCompleted && c.State != StateFailed }

func (c *Call) wait(since time.Time) {
	c.waiting, c.maybeWaiting, c.since, c.until = true, false, since, time.Time{}
}

// endWait ends the call's wait at the given time. It counts and returns how long the call waited.
func (l *Ledger) endWait(call *Call, at time.Time) time.Duration {
	if !call.waiting {
		return 0
	}
	call.waiting = false
	if !call.until.IsZero() && call.until.Before(at) {
		at = call.until
	}
	waited := max(0, at.Sub(call.since))
	if !call.Kind.IsParallel() {
		l.counts.Waited += waited
	}
	return waited
}

// end removes the call from the open calls. If KeepEnded is set, the call is kept among the ended
// ones.
func (l *Ledger) end(call *Call) {
	if call == l.newest {
		l.newest = nil
	} else {
		delete(l.open, call.Address)
	}
	if !l.KeepEnded {
		l.spare = append(l.spare, call)
		return
	}
	if l.ended == nil {
		l.ended = make(map[Address]*Call)
	}
	l.ended[call.Address] = call
}
