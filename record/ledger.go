package record

import (
	"iter"
	"maps"
	"time"
)

// A Ledger is the state of one run according to its records: which calls run, wait, ask or have
// ended, which questions are open, and how often each kind of event happened. This is the only
// place that derives it: consoles, dashboards and reports show what a Ledger says, so that their
// numbers agree; [Counts] defines the numbers.
//
// Records are added in the order of their numbers. A ledger accepts whatever the format allows,
// even records that contradict each other, and never panics. A ledger that begins in the middle of
// a run, or misses records, knows only what it has seen; see First and Gaps.
//
// The zero Ledger is that of a run without records. A Ledger is not for concurrent
// use.
type Ledger struct {
	// KeepEnded is set before the first record to keep the calls that have ended, for Call.
	// Otherwise the memory of a ledger is proportional to the number of open calls.
	KeepEnded bool

	// Limit is the maximum number of open calls that are followed; 0 means no limit, and a negative
	// Limit means that none are followed. Calls that are not followed are counted once they have an
	// outcome, and some of their attempts are missed.
	Limit int

	RunID       string
	Name        string // of the run's pipeline
	Description string

	Created, Updated time.Time // of the first and the latest record
	First, Last      uint64    // the numbers of the first and the latest record; 0 before there is one
	Generation       uint64    // of the latest record
	Gaps             bool      // records between First and Last are missing

	// Status is that of the latest record about the run itself: started while the run is open, and
	// otherwise how it ended. It is 0 if no such record was seen.
	Status Status

	// Stop says why the run stopped; it is nil while the run is open and if it has an outcome.
	Stop *InterruptedError

	counts        Counts
	opening       Counts                  // the counts when the run was last opened
	stopsByReason map[InterruptReason]int // how many calls are stopped for each reason

	failed    bool
	lastError Failure // if failed is set

	newest *Call // the open call that began last, if it is not in open yet
	open   map[Address]*Call
	ended  map[Address]*Call
	spare  []*Call // calls that have ended, to be reused for others

	questions       questions
	begun           bool      // a record was added
	firstGeneration uint64    // the generation of First
	clock           time.Time // the latest time that counts for Took
}

// A Transition is what a record has changed in a ledger.
type Transition struct {
	// Ignored is set if the record has changed nothing because it was published again, or its
	// number was seen before.
	Ignored bool

	// Rewound is set if the record replaces others that were seen but not kept: those of a process
	// that crashed, or of an opening without anything new. The counts still include the replaced
	// records.
	Rewound bool

	// Call is the call that the record is about, in its new state, and From is the state before.
	// Call is nil if the record is not about a call, or if the call is not followed. It is valid
	// until the next record.
	Call *Call
	From State

	Waited time.Duration // how long the call had waited; 0 if it was not waiting

	Asked  *Question   // the question that this record opened; nil for none
	Closed []*Question // questions that this record closed, in no particular order
}

// Add adds the next record. It keeps nothing of r.Detail except what questions need.
func (l *Ledger) Add(r *Record) (c Transition) {
	if r.Status == StatusRecovered {
		l.recall(r, &c)
		return c
	}
	if r.Replayed || r.Seq > 0 && r.Seq <= l.Last && r.Generation <= l.Generation {
		return Transition{Ignored: true}
	}
	c.Rewound = r.Seq > 0 && r.Seq <= l.Last
	l.number(r)
	if r.Kind == KindRun {
		l.addRun(r, &c)
	}
	l.tick(r)
	switch {
	case r.Kind.IsCall():
		l.addCall(r, &c)
		l.addError(r)
	case r.Kind == KindQuestion:
		c.Asked = l.questions.ask(r)
	case r.Kind == KindAnswer:
		l.questions.answer(r, &c)
	}
	return c
}

// addError keeps the error of a failed attempt, or drops the last error if its call has completed or
// is made again.
func (l *Ledger) addError(r *Record) {
	switch {
	case r.Status == StatusFailed:
		l.failed, l.lastError = true, Failure{r.Address, r.Class, r.Err, r.Time}
	case l.failed && r.Address == l.lastError.Address && (r.Status == StatusCompleted || r.Detail != nil && r.Detail.Replaces != nil):
		l.failed, l.lastError = false, Failure{}
	}
}

func (l *Ledger) number(r *Record) {
	if !l.begun {
		l.begun, l.RunID, l.Created, l.firstGeneration = true, r.RunID, r.Time, r.Generation
	}
	if r.Seq > 0 {
		if l.First == 0 {
			l.First = r.Seq
		}
		l.Gaps = l.Gaps || l.Last > 0 && r.Seq > l.Last+1
		l.Last = r.Seq
	}
	l.Generation = max(l.Generation, r.Generation)
}

// tick counts the time since the previous record. Between the last record of an opening and the
// next opening, no time is counted. An answer may be recorded while no process has the run open.
func (l *Ledger) tick(r *Record) {
	if r.Time.IsZero() {
		return
	}
	l.Updated = r.Time
	passed := r.Time.Sub(l.clock)
	if r.Kind == KindAnswer || passed <= 0 {
		return
	}
	if opens := r.Kind == KindRun && r.Status == StatusStarted; !l.clock.IsZero() && !opens {
		l.counts.Took += passed
	}
	l.clock = r.Time
}

// addRun adds the beginning or the end of the run. Calls that were running have stopped: a call
// runs again when a record says so.
func (l *Ledger) addRun(r *Record, c *Transition) {
	opens := r.Status == StatusStarted
	at := r.Time
	if opens {
		at = l.clock // the process may have ended at any time since
	}
	l.settle()
	for _, call := range l.open {
		l.pauseCall(call, r, at)
	}
	l.Status, l.Stop = r.Status, nil
	switch {
	case opens:
		l.opening = l.counts
		if r.Name != "" {
			l.Name = r.Name
		}
		if text := r.Message(); text != "" {
			l.Description = text
		}
	case r.Status == StatusCancelled:
		l.questions.closeAll(c)
	}
	if !opens && r.Status != StatusAwaiting {
		l.Stop = r.Interrupt()
	}
}

// pauseCall stops a call between two openings. One that waits for a person or a time still does so,
// unless the run was cancelled.
func (l *Ledger) pauseCall(call *Call, r *Record, at time.Time) {
	l.count(call, -1)
	if !call.maybeWaiting {
		l.endWait(call, at)
	}
	waits := call.State == StateAsking || call.State == StateWaiting
	if call.State == StateRunning || waits && (!call.suspended || r.Status == StatusCancelled) {
		call.State, call.stopReason = StateStopped, ""
	}
	if r.Status == StatusStarted {
		if call.Phase == StateWaiting { // for the rest of the delay
			call.wait(r.Time)
			call.until, call.maybeWaiting = call.Since.Add(call.Delay), true
		}
	} else {
		call.Closed = true
	}
	l.count(call, 1)
}

// recall notes that the outcome of a call was recalled. If the ledger has not seen the outcome, the
// call is counted as restored. Such records are published, but not stored.
func (l *Ledger) recall(r *Record, c *Transition) {
	if !r.Kind.IsCall() {
		c.Ignored = true
		return
	}
	if !r.Kind.IsParallel() {
		l.counts.Recalled++
	}
	if l.firstGeneration > 0 && r.Generation >= l.firstGeneration || l.find(r.Address) != nil {
		return
	}
	call := l.follow(r)
	if call == nil {
		return
	}
	call.State = StateRestored
	l.count(call, 1)
	c.Call = call
}

// Call returns the call at the address. It returns nil if no record of the call was seen, or if the
// call has ended and KeepEnded is not set. The result is valid until the next record.
func (l *Ledger) Call(a Address) *Call { return l.find(a) }

func (l *Ledger) find(a Address) *Call {
	if l.newest != nil && l.newest.Address == a {
		return l.newest
	}
	if call := l.open[a]; call != nil {
		return call
	}
	return l.ended[a]
}

// Open returns the calls that have not ended, in no order, including groups and branches.
func (l *Ledger) Open() iter.Seq[*Call] {
	return func(yield func(*Call) bool) {
		l.settle()
		for _, call := range l.open {
			if call.State != StateRestored && !yield(call) {
				return
			}
		}
	}
}

// NumOpen returns the number of calls that the ledger follows, including those that were recalled.
func (l *Ledger) NumOpen() int {
	if l.newest != nil {
		return len(l.open) + 1
	}
	return len(l.open)
}

// Counts returns the counts of the run.
func (l *Ledger) Counts() Counts { return l.counts }

// OpeningCounts returns the counts since the run was last opened.
func (l *Ledger) OpeningCounts() Counts { return l.counts.since(&l.opening) }

// TakeRecalled takes the number of recalled outcomes from another ledger of the run. No record in a
// store contains it.
func (l *Ledger) TakeRecalled(from *Ledger) { l.counts.Recalled = from.counts.Recalled }

// Clone returns a copy that can be changed independently.
func (l *Ledger) Clone() Ledger {
	l.settle()
	c := *l
	c.open, c.ended, c.spare = cloneCalls(l.open), cloneCalls(l.ended), nil
	c.stopsByReason, c.questions = maps.Clone(l.stopsByReason), l.questions.clone()
	return c
}

func cloneCalls(calls map[Address]*Call) map[Address]*Call {
	c := make(map[Address]*Call, len(calls))
	for a, call := range calls {
		kept := *call
		c[a] = &kept
	}
	return c
}

// LastError returns the latest failed attempt of a call. It returns false if none failed, or if that
// call has completed since, or is made again after it had failed for good.
func (l *Ledger) LastError() (Failure, bool) { return l.lastError, l.failed }

// Questions returns the questions that can still be answered, in the order in which they were
// asked. If sleeps is set, it also returns those that wait for a time or a signal.
func (l *Ledger) Questions(sleeps bool) []*Question { return l.questions.list(sleeps) }
