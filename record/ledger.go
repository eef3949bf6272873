package record

import (
	"iter"
	"maps"
	"time"
)

// A Ledger is the state of one run according to its records: which calls run,
// wait, ask or have ended, which questions are open, and how often what happened.
// It is the one place that derives this. What a console, a dashboard or a report
// shows is taken from it, so that their numbers agree; [Counts] defines them.
//
// Records are added in the order of their numbers. A ledger takes what the format
// allows, also records that contradict each other, and never panics. One that
// begins in the middle of a run, or misses records, knows what it has seen; First
// and Holes tell.
//
// The zero Ledger is that of a run without records. A Ledger is not for concurrent
// use.
type Ledger struct {
	// KeepEnded is set before the first record to keep the calls that have ended,
	// for Call. Without it a ledger takes as much memory as calls are open.
	KeepEnded bool

	// Limit is how many open calls are followed at most; 0 for no limit, below 0 for
	// none. Others are
	// counted once they have an outcome, and some of their attempts are missed.
	Limit int

	RunID       string
	Name        string // of the run's pipeline
	Description string

	Created, Updated time.Time // of the first and the latest record
	First, Last      uint64    // the numbers of the first and the latest record; 0 before there is one
	Generation       uint64    // of the latest record
	Holes            bool      // records between First and Last are missing

	// Status is that of the latest record about the run itself: started while it is
	// open, and otherwise how it ended. 0 if no such record was seen.
	Status Status

	// Stop is why the run stopped; nil while it is open and if it has its outcome.
	Stop *InterruptedError

	LastError *Failure // the newest attempt of a call that failed; nil if none did

	counts  Counts
	opening Counts // the counts when the run was opened last
	because map[InterruptReason]int

	newest *Call // the open call that began last; nil if it is in open
	open   map[Address]*Call
	ended  map[Address]*Call
	spare  []*Call // of calls that have ended, for others

	questions questions
	begun     bool      // a record was added
	joined    uint64    // the generation of First
	clock     time.Time // the latest time that counts for Took
}

// A Change is what a record has changed in a ledger.
type Change struct {
	// Ignored is set if the record has changed nothing: it was published again, or
	// its number was seen.
	Ignored bool

	// Rewound is set if the record takes the place of others that were seen, and
	// were not kept: those of a process that crashed, or of an opening without news.
	// What they said still counts.
	Rewound bool

	// Call is the call that the record is about, after it, and From the state before.
	// Call is nil if the record is about no call, or about one that is not followed.
	// It is valid up to the next record.
	Call *Call
	From State

	Waited time.Duration // how long the call had waited; 0 if it had not

	Asked  *Question   // the question that is open since this record; nil for none
	Closed []*Question // questions that are not open any more, in no order
}

// Add adds the next record. It keeps nothing of r.Detail but what questions need.
func (l *Ledger) Add(r *Record) (c Change) {
	if r.Status == StatusRecovered {
		l.recall(r, &c)
		return c
	}
	if r.Replayed || r.Seq > 0 && r.Seq <= l.Last && r.Generation <= l.Generation {
		return Change{Ignored: true}
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
		if r.Status == StatusFailed {
			l.LastError = &Failure{r.Address, r.Class, r.Err, r.Time}
		}
	case r.Kind == KindQuestion:
		c.Asked = l.questions.ask(r)
	case r.Kind == KindAnswer:
		l.questions.answer(r, &c)
	}
	return c
}

func (l *Ledger) number(r *Record) {
	if !l.begun {
		l.begun, l.RunID, l.Created, l.joined = true, r.RunID, r.Time, r.Generation
	}
	if r.Seq > 0 {
		if l.First == 0 {
			l.First = r.Seq
		}
		l.Holes = l.Holes || l.Last > 0 && r.Seq > l.Last+1
		l.Last = r.Seq
	}
	l.Generation = max(l.Generation, r.Generation)
}

// tick counts the time since the record before. Between its last record and the
// next opening, a run stood still. An answer may be recorded while nobody has the
// run open.
func (l *Ledger) tick(r *Record) {
	if r.Time.IsZero() {
		return
	}
	l.Updated = r.Time
	if r.Kind == KindAnswer || !r.Time.After(l.clock) {
		return
	}
	if opens := r.Kind == KindRun && r.Status == StatusStarted; !l.clock.IsZero() && !opens {
		l.counts.Took += r.Time.Sub(l.clock)
	}
	l.clock = r.Time
}

// addRun adds the beginning or the end of the run. What ran then has stopped: a
// call runs again once a record says so.
func (l *Ledger) addRun(r *Record, c *Change) {
	opens := r.Status == StatusStarted
	at := r.Time
	if opens {
		at = l.clock // the process may have ended at any time since
	}
	l.settle()
	for _, call := range l.open {
		l.rest(call, r, at)
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

// rest lets a call rest between two openings.
func (l *Ledger) rest(call *Call, r *Record, at time.Time) {
	l.count(call, -1)
	if !call.presumed {
		l.endWait(call, at)
	}
	if call.State == Running || call.State == Waiting && !call.suspended {
		call.State, call.because = Stopped, ""
	}
	if r.Status == StatusStarted {
		if call.Phase == PhaseWaiting { // for the rest of the delay
			call.wait(r.Time)
			call.until, call.presumed = call.Since.Add(call.Delay), true
		}
	} else {
		call.Closed = true
	}
	l.count(call, 1)
}

// recall adds that the outcome of a call was recalled. If the ledger has not seen
// the outcome, the call is counted as restored. Such records are published, and not
// kept.
func (l *Ledger) recall(r *Record, c *Change) {
	if !r.Kind.IsCall() {
		c.Ignored = true
		return
	}
	if !r.Kind.IsParallel() {
		l.counts.Recalled++
	}
	if l.joined > 0 && r.Generation >= l.joined || l.find(r.Address) != nil {
		return
	}
	call := l.follow(r)
	if call == nil {
		return
	}
	call.State = Restored
	l.count(call, 1)
	c.Call = call
}

// Call returns the call at the address. It returns nil if no record of it was
// seen, and unless KeepEnded is set also if it has ended. The call is valid up to
// the next record.
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

// Open returns the calls that have not ended, in no order. Groups and branches are
// among them.
func (l *Ledger) Open() iter.Seq[*Call] {
	return func(yield func(*Call) bool) {
		l.settle()
		for _, call := range l.open {
			if call.State != Restored && !yield(call) {
				return
			}
		}
	}
}

// NumOpen returns the number of calls that the ledger follows, those that were
// recalled among them.
func (l *Ledger) NumOpen() int {
	if l.newest != nil {
		return len(l.open) + 1
	}
	return len(l.open)
}

// Counts returns the counts of the run.
func (l *Ledger) Counts() Counts { return l.counts }

// Opening returns the counts since the run was opened last.
func (l *Ledger) Opening() Counts { return l.counts.since(&l.opening) }

// TakeRecalled takes the number of recalled outcomes of another ledger of the run, of
// which no record in a store says.
func (l *Ledger) TakeRecalled(from *Ledger) { l.counts.Recalled = from.counts.Recalled }

// Clone returns a copy that can be changed independently.
func (l *Ledger) Clone() Ledger {
	l.settle()
	c := *l
	c.open, c.ended, c.spare = cloneCalls(l.open), cloneCalls(l.ended), nil
	c.because, c.questions = maps.Clone(l.because), l.questions.clone()
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

// Questions returns the questions of which an answer is of use, in the order of
// asking; with sleeps, also those that time answers.
func (l *Ledger) Questions(sleeps bool) []*Question { return l.questions.list(sleeps) }
