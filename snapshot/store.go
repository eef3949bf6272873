package snapshot

import (
	"context"
	"errors"

	"github.com/reprise-go/reprise/core"
)

// A Store keeps runs. It is for many goroutines. Package storetest checks
// implementations against these rules. Long runs are resumed faster from one
// that is a [LazyStore], whose journals are each a [LazyJournal].
type Store interface {
	// Open opens a run for writing and begins a generation of it. A run that
	// is not there is begun if o.Create says so, and ErrNotFound otherwise; a
	// run that another has open is ErrLocked, or waited for if o.Wait says
	// so, until ctx ends.
	Open(ctx context.Context, runID string, o OpenOptions) (Journal, error)

	// Load reads a run, whether or not it is open for writing. What was
	// appended before Load was called is in it.
	Load(ctx context.Context, runID string) (*Snapshot, error)

	// List returns the runs that f picks, the last updated first, without
	// reading their records.
	List(ctx context.Context, f Filter) ([]Info, error)

	// Delete removes a run; one that is open is ErrLocked.
	Delete(ctx context.Context, runID string) error
}

// OpenOptions says how a run is opened.
type OpenOptions struct {
	Create   bool     // begin the run if it is not there
	Wait     bool     // wait for another writer to close it
	Metadata Metadata // of a run that is begun
	ParentID string   // of a run that is begun: what it was forked from

	// Retry is kept for the run, also for one that is there, in place of what
	// was kept before. Nil leaves that alone.
	Retry RetryLevels
}

// A Journal is one run open for writing. Append is called by one goroutine at
// a time, Sync by many. Once a method has returned an error, the journal is
// broken and returns that error for ever.
type Journal interface {
	// Restored returns the run as it was found, with the new generation and the
	// run's ID in each record; one that was begun has no records.
	Restored() *Snapshot

	// Append writes the records, whose numbers follow those before, from 1.
	// When it returns they have survived the process, if not the power.
	// Without records it does nothing.
	Append(records ...core.Record) error

	// Sync returns when everything up to seq has survived the power too; after
	// Close that is so for all that was appended.
	// Those who wait together share one write to the disk.
	Sync(seq uint64) error

	// Close ends the generation with the status that the run has now, syncs,
	// and lets others open the run. Closing twice is fine.
	Close(status Status) error
}

// What stores return, found by errors.Is.
var (
	ErrNotFound = errors.New("snapshot: not found")
	ErrLocked   = errors.New("snapshot: the run is open for writing elsewhere")
	ErrClosed   = errors.New("snapshot: the journal is closed")
	ErrCorrupt  = errors.New("snapshot: damaged")
	ErrFormat   = errors.New("snapshot: not a format that this version reads")
)

// An ArtifactStore keeps large outputs by their content: a reference is the
// SHA-256 of what it refers to, in hexadecimal.
type ArtifactStore interface {
	// Put keeps data and returns its reference; data that is there already is
	// not written again. When it returns, the artifact has survived the power.
	Put(ctx context.Context, data []byte) (reference string, err error)

	// Get returns the data of a reference. One that is not there is
	// ErrNotFound, one whose data does not match is ErrCorrupt.
	Get(ctx context.Context, reference string) ([]byte, error)
}
