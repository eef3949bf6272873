package storekit

import (
	"context"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A Backend stores the runs of a [Store], for example in a database. Each method is atomic: it
// changes everything, durably, or nothing. All methods are safe for concurrent use, including by
// Stores in other processes on the same data.
//
// A method that returns an error may have taken effect anyway, because the answer was lost. It may
// then be called again with the same arguments. A temporary error, such as that of an unreachable
// server, is snapshot.ErrUnavailable.
type Backend interface {
	Heads
	Journals
	Messages
}

// A Head is the stored state of a run, apart from its records and messages. The zero Head means
// that the run does not exist.
type Head struct {
	// Info is the info of the run. The backend sets its LastSeq, the number of the last
	// record, and Open, which reports whether a living process has the run open. Open is not
	// encoded, and an encoded LastSeq may be outdated.
	Info snapshot.Info

	UID     string // identifies this run; a later run with the same ID has another UID
	Version uint64 // increases with every change of the run except appended records
	Opening string // the token of the current opening; empty once the run is closed
	Swaps   string // tokens of the latest swaps, to recognize one whose answer was lost
}

// A Change is a changed run. If the run was deleted, Head is its last head.
type Change struct {
	Head    Head
	Deleted bool
}

// Heads stores the heads of runs.
type Heads interface {
	// Find returns the heads of the given runs, in any order. It leaves out runs that do not exist.
	Find(ctx context.Context, runIDs ...string) ([]Head, error)

	// Swap replaces a head by another one, and appends records, if there are any. If before is
	// zero, it creates the run with these records. If after is zero, it deletes the run, with its
	// records and messages. Swap reports false, and changes nothing, unless the run has the UID and
	// the Version of before and, if there are records, Prev of the records as its LastSeq. The
	// LastSeq of the run is then Last of the records; without records it does not change. If the
	// Opening of after is new and not empty, the process of the Backend becomes the one that has
	// the run open.
	Swap(ctx context.Context, before, after Head, records Batch) (swapped bool, err error)

	// List returns the heads of the next n runs after a place in lists, and fewer only if there are
	// no more. The zero Place is before all runs. List may leave out runs that the filter does not
	// select; for this, a run that is running and not open counts as interrupted. It ignores After
	// and Limit of the filter.
	List(ctx context.Context, f snapshot.Filter, after Place, n int) ([]Head, error)

	// Count returns the number of runs by status that the filter would select if its Status were
	// empty. As in List, a run that is running and not open counts as interrupted. Count returns
	// nil if the backend cannot count these runs without reading them: the store then counts them.
	Count(ctx context.Context, f snapshot.Filter) (map[snapshot.Status]int, error)

	// Changes returns the runs that have changed since a position, and the current position.
	// Appended records are changes, too. The position is one that an earlier call has returned, or
	// 0, for which the result contains all existing runs. With a run ID, only that run needs to be
	// returned. A change may be returned again, and several changes of a run as one. The error is
	// snapshot.ErrReset if the position is too old to know which runs were deleted since.
	Changes(ctx context.Context, runID string, since uint64) (changes []Change, position uint64, err error)
}

// A Batch contains records of a run that were appended together.
type Batch struct {
	RunID, UID string
	Opening    string // the token of the opening that appends them
	Prev, Last uint64 // the number of the record before the batch, and of its last record
	Data       []byte // in the form of snapshot.AppendRecord, one after the other
}

// Journals stores the records of runs.
type Journals interface {
	// Append appends records. It reports false, and changes nothing, unless the run has that UID
	// and that Opening and its LastSeq is Prev. The comparison and the change are one step, so
	// nothing is appended to a run that another process has opened since.
	Append(ctx context.Context, b Batch) (appended bool, err error)

	// Records returns the batches that contain records above after, in order. Only their Last and
	// Data need to be set. The first batch may begin with earlier records.
	Records(ctx context.Context, runID, uid string, after uint64) ([]Batch, error)
}

// Messages stores the encoded messages in the inboxes of runs. Each change of the inbox of a run
// increases the Version of the run.
type Messages interface {
	// Post adds a message. It reports false if a message with that ID exists. The error is
	// snapshot.ErrNotFound if the run does not exist.
	Post(ctx context.Context, runID, id string, data []byte) (posted bool, err error)

	// Messages returns the messages of a run, keyed by ID. The error is snapshot.ErrNotFound if the
	// run does not exist.
	Messages(ctx context.Context, runID string) (map[string][]byte, error)

	// Remove removes messages. It is not an error if they do not exist.
	Remove(ctx context.Context, runID string, ids []string) error
}

// Options configure a [Store].
type Options struct {
	// Poll is how often the store looks for changes by other processes, if [Store.NoteChanges] does not
	// report them earlier. Zero is for a backend in the memory of this process: the store then does
	// not look for changes, and appends records at once instead of in the background.
	Poll time.Duration

	// OnChange is called with the ID of each run that this store has changed, for example to make other
	// processes call [Store.NoteChanges]. It must not block. It may be nil.
	OnChange func(runID string)

	// Lost returns a channel that is closed when the process may have lost the runs that it has
	// opened since the last one was closed, such as [Lease.Lost]. It is nil if that cannot happen.
	Lost func() <-chan struct{}
}
