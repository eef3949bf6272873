package runner

import (
	"context"
	"time"
)

// A Queue hands runs to runners, one runner at a time for each run. The store is
// the truth: an entry too many does no harm, and one that is missing is added by
// the next sweep. It is for many goroutines.
type Queue interface {
	// Add adds an entry for a run, and reports whether it did: a run that has one
	// keeps it.
	Add(ctx context.Context, e Entry) (added bool, err error)

	// Wake has a run offered now, also if it has an entry or somebody has it.
	Wake(ctx context.Context, e Entry) error

	// Take waits for a run of one of the programs that is due, and takes it. Of
	// those that wait, one with a higher priority comes earlier. Its error is the
	// cause of ctx, or that of a queue that cannot be reached.
	Take(ctx context.Context, programs []ProgramID) (Lease, error)
}

// A Lease is a run that was taken from a [Queue]. Exactly one of Done, Park and
// Abandon is called at its end.
type Lease interface {
	Entry() Entry

	// Lost is closed when others may have the run; nil where that cannot happen.
	Lost() <-chan struct{}

	// Done removes the run from the queue.
	Done(ctx context.Context) error

	// Park has the run offered again when it is due. It is called after the run
	// was closed.
	Park(ctx context.Context, due time.Time) error

	// Abandon gives the lease up without a word: the run is offered again when
	// the lease is over.
	Abandon()
}

// A ProgramID is a version of a program.
type ProgramID struct{ Name, Version string }

// An Entry is a run that waits in a [Queue].
type Entry struct {
	RunID    string
	Program  ProgramID
	Priority int       // of those that are due, the highest is taken first
	Due      time.Time // when it shall be offered

	fresh bool // it was queued when the run was stored, and not found later
}
