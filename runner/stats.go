package runner

import (
	"expvar"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// EventType is the kind of an [Event].
type EventType string

// The types of events.
const (
	EventStarted EventType = "started" // Start has stored a run
	EventBegan   EventType = "began"   // a run was opened, for the first time or again
	EventEnded   EventType = "ended"   // a run was closed; see Status
	EventCrashed EventType = "crashed" // the process of a run has ended without closing it
	EventRemoved EventType = "removed" // retention has removed a run
	EventTrouble EventType = "trouble" // there was an error; without a RunID, of the store
)

// An Event is something that a runner did.
type Event struct {
	Type             EventType
	RunID            string
	Program, Version string
	Status           snapshot.Status // of the run, as far as it is known
	Stop             snapshot.Stop   // why it is interrupted or cancelled
	Due              time.Time       // when a paused run continues by itself
	Took             time.Duration   // ended: how long it was open
	Restarts         int             // crashed: how often in a row
	Err              error           // trouble; and ended: why the run cannot continue as it is, such as a divergence, or why its status cannot be read
}

// Stats are the counts of a runner.
type Stats struct {
	// Queued and Parked are runs in the queue, of all processes that share it. With
	// Options.Queue they are counted every ten seconds while the runner serves, and are
	// 0 before.
	Queued int `json:"queued"` // runs of the registered programs that are due and wait for a slot
	Parked int `json:"parked"` // runs that wait for their time; with Options.Queue, of any program

	Open  int `json:"open"`  // of this process
	Limit int `json:"limit"` // of this process

	Started     int64 `json:"started"`
	Began       int64 `json:"began"`
	Completed   int64 `json:"completed"`
	Failed      int64 `json:"failed"`
	Cancelled   int64 `json:"cancelled"`
	Interrupted int64 `json:"interrupted"`
	Paused      int64 `json:"paused"`
	Crashed     int64 `json:"crashed"`
	SetAside    int64 `json:"set_aside"` // after crashes
	Removed     int64 `json:"removed"`   // by retention
	Troubles    int64 `json:"troubles"`

	Calls     int64 `json:"calls"`     // attempts that began, without those of groups and their branches
	Retries   int64 `json:"retries"`   // of Calls: those after a failed one
	Exhausted int64 `json:"exhausted"` // calls that failed because no attempt, no time or no retry budget was left
}

// Stats returns the counts since New, and the present numbers of runs.
func (r *Runner) Stats() Stats {
	s := r.counts.stats()
	r.mu.Lock()
	s.Queued, s.Parked = r.queued, r.parked
	s.Open, s.Limit = len(r.open), r.options.Limit
	s.Calls, s.Retries, s.Exhausted = r.closed.Calls, r.closed.Retries, r.closed.Exhausted
	open := make([]*state.ExecutionState, 0, len(r.open))
	for _, o := range r.open {
		if o.st != nil {
			open = append(open, o.st)
		}
	}
	r.mu.Unlock()
	if r.heap != nil {
		s.Queued, s.Parked = r.heap.waiting()
	}
	for _, st := range open {
		s.add(st.Report())
	}
	return s
}

// add adds the counts of an opening of a run.
func (s *Stats) add(report state.Report) {
	s.Calls += int64(report.Attempts)
	s.Retries += int64(report.Retries)
	s.Exhausted += int64(report.Exhausted)
}

// Publish publishes the stats as an expvar of that name, which /debug/vars
// shows. It panics if the name is taken, as expvar.Publish does.
func (r *Runner) Publish(name string) {
	expvar.Publish(name, expvar.Func(func() any { return r.Stats() }))
}

// counts collects numbers from events.
type counts struct {
	started, began, crashed, setAside, removed, troubles atomic.Int64
	completed, failed, cancelled, interrupted, paused    atomic.Int64
}

func (c *counts) stats() Stats {
	return Stats{
		Started: c.started.Load(), Began: c.began.Load(), Completed: c.completed.Load(), Failed: c.failed.Load(),
		Cancelled: c.cancelled.Load(), Interrupted: c.interrupted.Load(), Paused: c.paused.Load(),
		Crashed: c.crashed.Load(), SetAside: c.setAside.Load(), Removed: c.removed.Load(), Troubles: c.troubles.Load(),
	}
}

// observe counts an event and passes it on.
func (r *Runner) observe(e Event) {
	r.counts.add(&e)
	r.options.Observe(e)
}

func (c *counts) add(e *Event) {
	if e.Stop.Reason == record.InterruptCrashLoop {
		c.setAside.Add(1)
	}
	switch e.Type {
	case EventStarted:
		c.started.Add(1)
	case EventBegan:
		c.began.Add(1)
	case EventEnded:
		c.end(e.Status)
	case EventCrashed:
		c.crashed.Add(1)
	case EventRemoved:
		c.removed.Add(1)
	case EventTrouble:
		c.troubles.Add(1)
	}
}

func (c *counts) end(status snapshot.Status) {
	switch status {
	case snapshot.StatusCompleted:
		c.completed.Add(1)
	case snapshot.StatusFailed:
		c.failed.Add(1)
	case snapshot.StatusCancelled:
		c.cancelled.Add(1)
	case snapshot.StatusInterrupted:
		c.interrupted.Add(1)
	case snapshot.StatusPaused:
		c.paused.Add(1)
	}
}

// String returns a line about the event.
func (e Event) String() string {
	text := string(e.Type)
	if e.RunID != "" {
		text += " run " + e.RunID
	}
	if e.Program != "" {
		text += " of " + e.Program + " " + e.Version
	}
	if e.Status != "" {
		text += ": " + string(e.Status)
	}
	if e.Stop.Reason != "" {
		text += " (" + string(e.Stop.Reason) + ")"
	}
	if e.Stop.Message != "" && e.Err == nil { // Err says more
		text += ": " + e.Stop.Message
	}
	if e.Restarts > 1 {
		text += fmt.Sprintf(", %d times in a row", e.Restarts)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}
