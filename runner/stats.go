package runner

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// NoticeType is the kind of a [Notice].
type NoticeType string

// The types of notices.
const (
	NoticeStarted NoticeType = "started" // a new run was stored, by Start, Call or a schedule
	NoticeOpened  NoticeType = "opened"  // a run was opened, for the first time or again
	NoticeClosed  NoticeType = "closed"  // a run was closed; see Status
	NoticeCrashed NoticeType = "crashed" // the process of a run has ended without closing it
	NoticeRemoved NoticeType = "removed" // retention has removed a run
	NoticeTrouble NoticeType = "trouble" // an error occurred; RunID is empty if it is not about a single run
)

// A Notice reports something that a runner did or detected.
type Notice struct {
	Type             NoticeType
	RunID            string
	Program, Version string
	Status           snapshot.Status // the run's status, if known
	Stop             snapshot.Stop   // why the run is interrupted or cancelled; also set if it was cancelled and is paused
	Due              time.Time       // when a paused run will continue by itself
	Took             time.Duration   // closed: how long the run was open
	Restarts         int             // crashed: the number of consecutive crashes
	Resumed          bool            // opened: the run had been opened before and now continues
	Err              error           // trouble: the error; closed: why the run failed or cannot continue, such as a divergence, or why its status cannot be read
}

// Stats holds a runner's counts.
type Stats struct {
	// Queued and Parked are the numbers of runs in the queue, from all processes that share the
	// queue. If Options.Queue is set, the runs are counted every ten seconds while the runner
	// serves; until then, both numbers are 0.
	Queued int `json:"queued"` // runs of the registered programs that are due and wait for a slot
	Parked int `json:"parked"` // runs waiting for their time; if Options.Queue is set, runs of any program

	Open  int `json:"open"`  // runs that this process has open
	Limit int `json:"limit"` // Options.Limit

	Started     int64 `json:"started"`
	Opened      int64 `json:"opened"`
	Completed   int64 `json:"completed"`
	Failed      int64 `json:"failed"`
	Cancelled   int64 `json:"cancelled"`
	Interrupted int64 `json:"interrupted"`
	Paused      int64 `json:"paused"`
	Crashed     int64 `json:"crashed"`
	CrashLoops  int64 `json:"crash_loops"` // runs set aside after crashes
	Removed     int64 `json:"removed"`     // runs removed by retention
	Troubles    int64 `json:"troubles"`

	Attempts  int64 `json:"attempts"`  // attempts begun, not counting those of groups and branches
	Retries   int64 `json:"retries"`   // how many of Attempts followed a failed attempt
	Exhausted int64 `json:"exhausted"` // calls that failed because no attempts, time or retry budget was left
}

// Stats returns the counts since New and the current numbers of runs.
func (r *Runner) Stats() Stats {
	s := r.counts.stats()
	r.mu.Lock()
	s.Queued, s.Parked = r.queued, r.parked
	s.Open, s.Limit = len(r.open), r.options.Limit
	s.Attempts, s.Retries, s.Exhausted = r.closed.Attempts, r.closed.Retries, r.closed.Exhausted
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

// add adds the counts for one opening of a run.
func (s *Stats) add(report state.Report) {
	s.Attempts += int64(report.Attempts)
	s.Retries += int64(report.Retries)
	s.Exhausted += int64(report.Exhausted)
}

// counts accumulates numbers from notices.
type counts struct {
	started, opened, crashed, crashLoops, removed, troubles atomic.Int64
	completed, failed, cancelled, interrupted, paused       atomic.Int64
}

func (c *counts) stats() Stats {
	return Stats{
		Started: c.started.Load(), Opened: c.opened.Load(), Completed: c.completed.Load(), Failed: c.failed.Load(),
		Cancelled: c.cancelled.Load(), Interrupted: c.interrupted.Load(), Paused: c.paused.Load(),
		Crashed: c.crashed.Load(), CrashLoops: c.crashLoops.Load(), Removed: c.removed.Load(), Troubles: c.troubles.Load(),
	}
}

// observe counts a notice and passes it on.
func (r *Runner) observe(n Notice) {
	r.counts.add(&n)
	r.options.Observe(n)
}

func (c *counts) add(n *Notice) {
	if n.Stop.Reason == record.InterruptCrashLoop {
		c.crashLoops.Add(1)
	}
	switch n.Type {
	case NoticeStarted:
		c.started.Add(1)
	case NoticeOpened:
		c.opened.Add(1)
	case NoticeClosed:
		c.end(n.Status)
	case NoticeCrashed:
		c.crashed.Add(1)
	case NoticeRemoved:
		c.removed.Add(1)
	case NoticeTrouble:
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

// String returns a one-line description of the notice.
func (n Notice) String() string {
	text := string(n.Type)
	if n.RunID != "" {
		text += " run " + n.RunID
	}
	if n.Program != "" {
		text += " of " + n.Program + " " + n.Version
	}
	if n.Status != "" {
		text += ": " + string(n.Status)
	}
	if n.Stop.Reason != "" {
		text += " (" + string(n.Stop.Reason) + ")"
	}
	if n.Stop.Message != "" && n.Err == nil { // Err is more detailed
		text += ": " + n.Stop.Message
	}
	if n.Restarts > 1 {
		text += fmt.Sprintf(", %d times in a row", n.Restarts)
	}
	if n.Err != nil {
		text += ": " + fmt.Sprint(n.Err) // its method may panic
	}
	return text
}
