package runner

import (
	"context"
	"time"
)

// A Queue hands runs to runners: each run to one runner at a time. The store decides
// what runs there are, so an extra entry does no harm, and the next sweep adds a missing
// one. A Queue is safe for concurrent use.
type Queue interface {
	// Add adds an entry for a run that has none, and reports whether it did.
	Add(ctx context.Context, e QueueEntry) (added bool, err error)

	// Wake makes a run due now, even if it has an entry or was taken.
	Wake(ctx context.Context, e QueueEntry) error

	// Waiting returns two numbers: the entries of the given programs that are due and not taken,
	// and the entries of all programs that are not yet due. Both may be some seconds old.
	Waiting(ctx context.Context, programs []ProgramID) (due, parked int, err error)

	// Now returns the time that decides when entries are due, such as that of a server. It is
	// called for each entry, so it must not ask the server each time.
	Now(ctx context.Context) (time.Time, error)

	// Take waits until a run of one of the programs is due, and takes it, together with up to n-1
	// others that are due. Runs with a higher priority come first. The error is the cause of ctx,
	// or says why the queue cannot be reached; in both cases nothing is taken.
	Take(ctx context.Context, programs []ProgramID, n int) ([]Lease, error)
}

// A Lease is a run that was taken from a [Queue]. It ends with exactly one call of Done,
// Park or Abandon.
type Lease interface {
	Entry() QueueEntry

	// Lost returns a channel that is closed when another runner may have the run. It is
	// nil if that cannot happen.
	Lost() <-chan struct{}

	// Done removes the run from the queue.
	Done(ctx context.Context) error

	// Park puts the run back, to be taken again when it is due. It is called after the
	// run was closed.
	Park(ctx context.Context, due time.Time) error

	// Abandon gives up the lease without notifying the queue: the run can be taken
	// again when the lease expires.
	Abandon()
}

// A ProgramID is a version of a program.
type ProgramID struct{ Name, Version string }

// A QueueEntry is a run that waits in a [Queue].
type QueueEntry struct {
	RunID    string
	Program  ProgramID
	Priority int       // among the runs that are due, the one with the highest is taken first
	Due      time.Time // when the run can be taken

	// Fresh tells Add that this process has just stored the run. A queue whose store adds a job
	// with each run then has the entry already. A queue need not keep Fresh.
	Fresh bool
}
