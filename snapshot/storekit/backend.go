package storekit

import (
	"context"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// A Backend stores the runs of a [Store], for example in a database. Each method is atomic: it
// durably makes either all of its changes or none. All methods are safe for concurrent use,
// including use by Stores in other processes that share the data.
//
// If a method returns an error, it may have taken effect anyway, because the answer may have been
// lost. The method may then be called again with the same arguments. If an error is temporary, for
// example because a server cannot be reached, it must match snapshot.ErrUnavailable.
type Backend interface {
	Heads
	Journals
	Messages
}

// A Head is the stored state of a run, apart from its records and messages. The zero Head means
// that the run does not exist.
type Head struct {
	// Info is the run's info. The backend sets two of its fields: LastSeq is the number of the last
	// record, and Open reports whether a live process has the run open. Open is not encoded, and an
	// encoded LastSeq may be outdated.
	Info snapshot.Info

	UID     string // identifies this run; a later run with the same ID has another UID
	Version uint64 // increases with every change to the run, except when records are appended
	Opening string // the token of the current opening; empty if the run is closed
	Swaps   string // tokens of the latest swaps, to recognize a swap whose answer was lost
}

// A Change describes a run that has changed. If the run was deleted, Head is its last head.
type Change struct {
	Head    Head
	Deleted bool
}

// Heads stores the heads of runs.
type Heads interface {
	// Find returns the heads of the given runs, in any order. It ignores runs that do not exist.
	Find(ctx context.Context, runIDs ...string) ([]Head, error)

	// Swap replaces a run's head and appends the given records, if there are any. If before is zero,
	// Swap creates the run with these records. If after is zero, Swap deletes the run with its
	// records and messages.
	//
	// If the run does not have the UID and the Version of before, or if there are records and the
	// run's LastSeq is not records.Prev, Swap changes nothing and reports false. Otherwise, if there
	// are records, records.Last becomes the run's LastSeq; without records, LastSeq does not change.
	// If after.Opening is not empty and differs from the run's Opening, the Backend's process
	// becomes the process that has the run open.
	Swap(ctx context.Context, before, after Head, records Batch) (swapped bool, err error)

	// List returns the heads of the next n runs after the given Place, in the order of lists. It
	// returns fewer than n only if there are no more. The zero Place is before all runs. List may
	// omit runs that the filter does not select; for this purpose, a run that has the status
	// running but is not open counts as interrupted. List ignores the filter's After and Limit.
	List(ctx context.Context, f snapshot.Filter, after Place, n int) ([]Head, error)

	// Count returns, for each status, how many runs the filter would select if f.Status were empty.
	// As in List, a run that has the status running but is not open counts as interrupted. If the
	// backend cannot count these runs without reading them, Count returns nil, and the Store counts
	// them.
	Count(ctx context.Context, f snapshot.Filter) (map[snapshot.Status]int, error)

	// Changes returns the runs that have changed since a position, and the current position.
	// Appending records also counts as a change. The parameter since is a position that an earlier
	// call has returned, or 0. For 0, the result contains all existing runs. If runID is not empty,
	// only that run needs to be returned. A change may be returned more than once, and several
	// changes to a run may be returned as one. If the position is so old that it is not known which
	// runs were deleted since then, the error is snapshot.ErrReset.
	Changes(ctx context.Context, runID string, since uint64) (changes []Change, position uint64, err error)
}

// A Batch contains records of a run that are stored together.
type Batch struct {
	RunID, UID string
	Opening    string // the token of the opening that appends the records
	Prev, Last uint64 // the numbers of the last record before the batch and of the last one in it
	Data       []byte // the records as encoded by snapshot.AppendRecord, one after the other
}

// Journals stores the records of runs.
type Journals interface {
	// Append appends records. If the run does not have the UID and the Opening of b, or its LastSeq
	// is not b.Prev, Append changes nothing and reports false. Comparing and appending must be one
	// atomic step, so that nothing is appended to a run that another process has opened meanwhile.
	Append(ctx context.Context, b Batch) (appended bool, err error)

	// Records returns the batches that contain records with numbers above after, in order. Only
	// their Last and Data need to be set. The first batch may begin with earlier records.
	Records(ctx context.Context, runID, uid string, after uint64) ([]Batch, error)
}

// Messages stores the encoded messages in the inboxes of runs. Each change to a run's inbox
// increases the run's Version.
type Messages interface {
	// Post adds a message. It reports false if a message with the same ID exists. The error is
	// snapshot.ErrNotFound if the run does not exist.
	Post(ctx context.Context, runID, id string, data []byte) (posted bool, err error)

	// Messages returns the messages for a run, keyed by ID. The error is snapshot.ErrNotFound if the
	// run does not exist.
	Messages(ctx context.Context, runID string) (map[string][]byte, error)

	// Remove removes messages. It is not an error if they do not exist.
	Remove(ctx context.Context, runID string, ids []string) error
}

// Options configures a [Store].
type Options struct {
	// Poll is the interval at which the store looks for changes by other processes that
	// [Store.NoteChanges] has not reported. Zero is for a backend in the memory of this process:
	// the store then does not look for changes, and it stores records before Append returns, not in
	// the background.
	Poll time.Duration

	// OnChange, if not nil, is called with the ID of each run that this store has changed, for
	// example to make other processes call [Store.NoteChanges]. It must not block.
	OnChange func(runID string)

	// Lost, if not nil, returns a channel that is closed when the process may have lost its open
	// runs, such as the channel of [Lease.Lost]. After that, Lost is called again and returns another
	// channel for runs that are opened later. If Lost is nil, runs cannot be lost in this way.
	Lost func() <-chan struct{}
}
