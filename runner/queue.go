package runner

import (
	"context"
	"time"
)

// A Queue hands runs to runners, each run to one runner at a time. The store decides which runs
// exist: an extra entry does no harm, and the next sweep adds a missing entry. A Queue is safe for
// concurrent use.
type Queue interface {
	// Add adds an entry for a run, unless the run already has one. It reports whether it added the
	// entry.
	Add(ctx context.Context, e QueueEntry) (added bool, err error)

	// Wake makes a run due now, even if the run already has an entry or has been taken.
	Wake(ctx context.Context, e QueueEntry) error

	// Waiting returns the number of entries of the given programs that are due and not taken, and
	// the number of entries of all programs that are not yet due. Both numbers may be some seconds
	// old.
	Waiting(ctx context.Context, programs []ProgramID) (due, parked int, err error)

	// Now returns the current time of the clock that decides when entries become due, such as the
	// clock of a server. It is called for each entry, so it must not ask the server each time.
	Now(ctx context.Context) (time.Time, error)

	// Take waits until a run of one of the programs is due. It then takes that run, and up to n-1
	// other runs that are due. Runs with a higher priority come first. Take returns the cause of
	// ctx if ctx is done, ErrQueueClosed if the queue can never be reached again, or another error
	// if it cannot be reached now. In all these cases, nothing is taken.
	Take(ctx context.Context, programs []ProgramID, n int) ([]Lease, error)
}

// A Lease is a run that was taken from a [Queue]. It ends with exactly one call to Done, Park or
// Abandon.
type Lease interface {
	Entry() QueueEntry

	// Lost returns a channel that is closed when another runner may have taken the run. The channel
	// is nil if that cannot happen.
	Lost() <-chan struct{}

	// Done removes the run from the queue.
	Done(ctx context.Context) error

	// Park puts the run back, to be taken again when it is due. It is called after the run has been
	// closed.
	Park(ctx context.Context, due time.Time) error

	// Abandon gives up the lease without notifying the queue. The run can be taken again when the
	// lease expires.
	Abandon()
}

// A ProgramID identifies a version of a program.
type ProgramID struct{ Name, Version string }

// A QueueEntry is a run that is waiting in a [Queue].
type QueueEntry struct {
	RunID    string
	Program  ProgramID
	Priority int       // among the runs that are due, the run with the highest priority is taken first
	Due      time.Time // when the run can be taken

	// Fresh tells Add that this process has just stored the run. If the queue's store adds a job
	// together with each run, the queue then already contains the entry. A queue does not have to
	// keep Fresh.
	Fresh bool
}
