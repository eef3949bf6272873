package record

import (
	"iter"
	"maps"
	"time"
)

// A Ledger is the state of a run according to its records: which calls are running, waiting or
// asking, or have ended, which questions are open, and how often each kind of event has happened.
// No other code derives this state from records. Consoles, dashboards and reports all show the
// numbers of a Ledger, so that they agree. [Counts] defines the numbers.
//
// Records are added in the order of their numbers. A ledger accepts whatever the format allows,
// even records that contradict each other, and never panics. If a ledger begins in the middle of a
// run, or if records are missing, it reflects only the records that were added; see First and Gaps.
//
// The zero Ledger is the state of a run without records. A Ledger is not safe for concurrent use.
type Ledger struct {
	// KeepEnded makes the ledger keep calls after they have ended, so that Call returns them. It
	// must be set before the first record is added. If it is not set, the memory that a ledger uses
	// is proportional to the number of open calls.
	KeepEnded bool

	// Limit is the maximum number of open calls that the ledger follows. 0 means no limit. If Limit
	// is negative, the ledger follows no calls. A call that is not followed is counted only once it
	// has an outcome, and some of its attempts may not be counted.
	Limit int

	RunID       string
	Name        string // name of the run's pipeline
	Description string

	Created, Updated time.Time // times of the first and the latest record
	First, Last      uint64    // numbers of the first and the latest record; 0 before the first
	Generation       uint64    // highest generation of any record
	Gaps             bool      // records between First and Last are missing

	// Status is the status in the latest record about the run itself. It is StatusStarted while the
	// run is open, and otherwise shows how the run ended. It is 0 if no such record was added.
	Status Status

	// Stop is the interrupt that stopped the run. It is nil while the run is open, and if the run
	// has an outcome.
	Stop *InterruptedError

	counts        Counts
	opening       Counts                  // the counts when the run was last opened
	stopsByReason map[InterruptReason]int // how many calls are stopped for each reason

	failed    bool
	lastError Failure // valid only if failed is set

	newest *Call // the open call that began last, unless it is already in open
	open   map[Address]*Call
	ended  map[Address]*Call
	spare  []*Call // ended calls, to be reused for other calls

	questions       questions
	begun           bool      // a record was added
	firstGeneration uint64    // the generation of First
	clock           time.Time // time up to which Took has been counted
}

// A Transition describes what a record changed in a ledger.
type Transition struct {
	// Ignored is set if the record changed nothing, for example because it was published again, or
	// because a record with the same number had already been added.
	Ignored bool

	// Rewound is set if the record replaces records that were added to the ledger but never stored:
	// those of a process that crashed, or those of an opening in which nothing new happened. The
	// counts still include the replaced records.
	Rewound bool

	// Call is the call that the record is about, in its new state, and From is its previous state.
	// Call is nil if the record is not about a call, or if the call is not followed. Call is valid
	// until the next record is added.
	Call *Call
	From State

	Waited time.Duration // how long the call had waited; 0 if it was not waiting

	Asked  *Question   // the question that this record opened, or nil
	Closed []*Question // questions that this record closed, in no particular order
}

// Add adds the next record. It keeps only those parts of r.Detail that questions need.
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

// addError keeps the error of a failed attempt. It drops the last error if the call of that error
// has completed or is made again.
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

// tick counts the time since the previous record. It counts no time between the last record of an
// opening and the next opening, even if an answer is recorded in between, while no process has the
// run open.
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

// addRun adds a record of the beginning or the end of the run. Calls that were running count as
// stopped until a record shows that they are running again.
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

// pauseCall stops a call between two openings. A call that waits for a person or until a given time
// keeps waiting, unless the run was cancelled.
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
		if call.Phase == StateWaiting { // the call waits for the rest of the delay
			call.wait(r.Time)
			call.until, call.maybeWaiting = call.Since.Add(call.Delay), true
		}
	} else {
		call.Closed = true
	}
	l.count(call, 1)
}

// recall adds a record of a recalled outcome. If the outcome itself was not added to the ledger,
// the call is counted as restored. Records of recalled outcomes are published but not stored.
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

// Call returns the call at the given address. It returns nil if no record of the call was added, or
// if the call has ended and KeepEnded is not set. The result is valid until the next record is
// added.
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

// Open returns the calls that have not ended, including groups and branches, in no particular
// order.
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

// TakeRecalled copies the number of recalled outcomes from another ledger of the same run. Stored
// records do not contain this number.
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

// LastError returns the latest failed attempt. It returns false if no attempt has failed, or if the
// call of that attempt has since completed, or was made again after it had failed for good.
func (l *Ledger) LastError() (Failure, bool) { return l.lastError, l.failed }

// Questions returns the questions that can still be answered, in the order in which they were
// asked. If sleeps is set, it also returns those that wait for a time or a signal.
func (l *Ledger) Questions(sleeps bool) []*Question { return l.questions.list(sleeps) }
