package snapshot

import (
	"context"
	"iter"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Store stores runs, their waiting messages, and their large outputs. It must be safe for
// concurrent use. Package storetest tests implementations against these rules. Package storekit
// builds a store from ten methods; its example sqlitestore uses SQLite.
//
// The following applies to every method, including those of Reader, Inbox and ArtifactStore. If the
// context has ended, the method changes nothing, and the error is the context's cause. If a run ID
// is invalid, the error is the one from [CheckRunID]. Iterators yield these errors.
type Store interface {
	Reader
	Inbox
	ArtifactStore

	// Create stores a new run, such as a forked, imported or queued one, under run.RunID. The run
	// is not open afterwards. Create durably stores either the whole run or nothing. If a run with
	// the same ID exists, the error is ErrExists.
	//
	// Create keeps Info.Status, except that it stores the status running as interrupted. It sets
	// Info.Updated to the current time if the status is running, or if Updated is before Created or
	// in the future. Otherwise it keeps Updated, which is the end time of a run that has ended. It
	// sets Open, Owner and LastSeq.
	Create(ctx context.Context, run *Run) (Info, error)

	// Open opens a run for writing and begins a new generation. If the run does not exist, Open
	// creates it if o.Create is set; otherwise the error is ErrNotFound. If the run is already open,
	// the error is ErrLocked. With o.Wait, Open instead waits until the run is closed. If ctx ends
	// first, the error matches both ErrLocked and the cause of ctx.
	//
	// If a run is stored as running but no process has it open, a process has crashed. Load, Info,
	// List and Restored report such a run as interrupted, with the reason crash.
	Open(ctx context.Context, runID string, o OpenOptions) (Journal, error)

	// Update calls change to modify a run's Info, stores the Info, and returns it. Metadata, Pinned
	// and Expires may change at any time. Status, Stop, Due, Program, Version, Priority, Restarts,
	// RetryTo and RefusedBy may change only while the run is not open; otherwise the error is
	// ErrLocked. No other fields may change. Update may call change several times. If change returns
	// an error, Update returns that error and changes nothing. The store sets Updated to a later
	// time.
	Update(ctx context.Context, runID string, change func(*Info) error) (Info, error)

	// Delete removes a run. If the run is open, the error is ErrLocked.
	Delete(ctx context.Context, runID string) error
}

// A Reader reads runs, including runs that are open for writing in this or another process.
// RunID is set in all records that a Reader returns, although it is not encoded with them.
type Reader interface {
	// Load reads a run. The result contains all records that were synced before Load was called,
	// and all records that were appended through the same store.
	Load(ctx context.Context, runID string) (*Run, error)

	// Records yields the records with numbers above after, in order and without gaps: the same
	// records that Load returns. A store does not read the earlier records if it can avoid that.
	// Records ends after an error.
	Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error]

	// Info returns a run's info. If the run is open, LastSeq may lag behind, but is at least the
	// value that it had when the run was opened.
	Info(ctx context.Context, runID string) (Info, error)

	// List returns the runs that f selects without reading their records. The most recently updated
	// run comes first, unless f requests another order. List may lag behind Info and Load. If a run
	// was created with an earlier Updated, a store may list it as if it had been updated when it
	// was created.
	List(ctx context.Context, f Filter) (Page, error)

	// Follow yields the records of a run after the cursor, in order and without gaps: first the
	// existing records, and then new records as they are appended. It ends with an error:
	//   - the cause of ctx, if ctx ends
	//   - ErrNotFound, if the run does not exist, or is deleted or replaced by another run with the
	//     same ID
	//   - ErrReset, if the cursor is not in the run's history
	//   - ErrCorrupt, if the run is damaged
	Follow(ctx context.Context, runID string, after Cursor) iter.Seq2[record.Record, error]

	// Watch yields an event for each existing run, and then an event whenever a run is created,
	// changed or deleted. Appending records counts as a change only if o.Records is set. It is not
	// an error if the run o.RunID does not exist; the first event then comes when the run is
	// created. Several changes may be combined into one event. Watch ends with an error, such as
	// the cause of ctx.
	Watch(ctx context.Context, o WatchOptions) iter.Seq2[Change, error]
}

// A Cursor is a position in a run's history, directly after the record with the number Seq, which
// was written by Generation. If Generation is 0, any generation may have written the record. The
// zero Cursor is the beginning.
type Cursor struct{ Generation, Seq uint64 }

// WatchOptions specifies which events Watch yields.
type WatchOptions struct {
	RunID    string // watch only this run, including changes to its messages; if empty, watch all runs
	After    string // continue after the event with this Position; ErrReset if the store cannot do that
	Records  bool   // also yield the records that are appended from now on
	Messages bool   // new messages for open runs count as changes
}

// A Change is an event that Watch yields for a run.
type Change struct {
	Position string          // for WatchOptions.After; empty in stores that cannot continue after an event
	Info     Info            // the current info; for a deleted run, the last info
	Deleted  bool            // the run was deleted
	Records  []record.Record // the records appended since the previous event
}

// OpenOptions configures how a run is opened.
type OpenOptions struct {
	Create   bool     // create the run if it does not exist
	Wait     bool     // if the run is open, wait until it is closed
	Metadata Metadata // metadata of a run that is created

	// Retry, if not nil, replaces the retry levels that are stored with the run, whether or not
	// the run is new.
	Retry RetryLevels

	Owner string // who opens the run, for Info and for errors that match ErrLocked

	// Check, if not nil, is called with the run's info before the run is opened, and again if the
	// run changes between the call and the opening. If Check returns an error, Open returns that
	// error and changes nothing.
	Check func(Info) error
}

// A Journal is a run that is open for writing. Append must not be called concurrently; the other
// methods are safe for concurrent use. If Append or Sync fails for a reason other than the end of a
// context, the journal is broken, and both return the same error from then on.
//
// A journal may lose its right to write to the run, for example because a lease has expired or the
// directory was moved. The errors are then ErrFenced, ErrMaybeStored or ErrLease, and Close changes
// nothing that others can see.
type Journal interface {
	// Restored returns the run as it was before it was opened, except that its info has the new
	// generation. A new run has no records.
	Restored() *Run

	// Append appends all of the records or none. The first record of a run has the number 1, and
	// each number must be one more than the previous one. Append does not wait for the disk or a
	// server. The records survive the end of the process once Append has returned or, in a store on
	// a server, some milliseconds later. If there are no records, Append does nothing.
	Append(records ...record.Record) error

	// Sync returns when the records up to seq are durable. If no record with the number seq was
	// appended, it waits for all records. Concurrent callers share one write to the disk. If ctx
	// ends, Sync stops waiting, but the journal is not broken. Once Close has returned without an
	// error, all records are durable, and Sync returns nil.
	Sync(ctx context.Context, seq uint64) error

	// Notify returns a channel that receives a value when the run's inbox may have new messages.
	Notify() <-chan struct{}

	// Lost returns a channel that is closed when the journal may no longer own the run. The channel
	// is nil if the store never loses a run.
	Lost() <-chan struct{}

	// Close ends the generation, syncs the records, and releases the run, so that others can open
	// it. If Close fails, the run counts as interrupted. A second Close returns the same error.
	Close(ctx context.Context, end End) error
}

// An End describes how a generation ended.
type End struct {
	Status Status
	Stop   Stop         // why the run was interrupted or cancelled; a cancelled run may be paused: see state.Cancel
	Due    time.Time    // when the run continues by itself; zero if it waits for an answer or has ended
	Usage  record.Usage // the run's usage over all generations

	Summary Summary // the run's summary over all generations
}

// An ArtifactStore stores large outputs, addressed by their content. The reference to an output is
// the SHA-256 hash of its data, in hexadecimal.
type ArtifactStore interface {
	// Put stores data and returns its reference. Data that is already stored is not written again.
	// When Put returns without an error, the artifact is durable. If Put fails for a reason other
	// than the data, such as a full disk, the error is ErrUnavailable.
	Put(ctx context.Context, data []byte) (reference string, err error)

	// Get returns the data for a reference. The error is ErrNotFound if the artifact does not exist,
	// and ErrCorrupt if the stored data does not match the reference.
	Get(ctx context.Context, reference string) ([]byte, error)
}
