package snapshot

import (
	"context"
	"iter"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Store stores runs, their waiting messages, and their large outputs. It must be safe for
// concurrent use. Package storetest tests implementations against these rules. Package storekit
// makes a store from ten methods; its example sqlitestore uses SQLite.
//
// If the context has ended, every method, including those of Reader, Inbox and
// ArtifactStore, changes nothing and returns the cause of the context. For an invalid
// run ID it returns the error of [CheckRunID]. Iterators yield these errors.
type Store interface {
	Reader
	Inbox
	ArtifactStore

	// Create stores a run that is not open, such as one that was forked, imported or queued, under
	// run.RunID. It stores the whole run durably, or nothing. If a run with that ID exists, the
	// error is ErrExists. Info.Status is kept, except that running is stored as interrupted.
	// Info.Updated, which is the end time of a run that has ended, is kept, too; the time of the
	// call replaces it if the status was running, or if it is before Created or in the future. The
	// store sets Open, Owner and LastSeq.
	Create(ctx context.Context, run *Run) (Info, error)

	// Open opens a run for writing and begins a generation of it. A run that does not
	// exist is created if o.Create is set; otherwise the error is ErrNotFound. If the
	// run is open already, the error is ErrLocked. With o.Wait, Open waits until the
	// run is closed or ctx ends; at the end of ctx the error matches both ErrLocked
	// and the cause of ctx.
	//
	// A run that is stored as running although no process has it open was left by a
	// crash: Load, Info, List and Restored report it as interrupted, with the reason
	// crash.
	Open(ctx context.Context, runID string, o OpenOptions) (Journal, error)

	// Update changes the Info of a run, and returns it. Metadata, Pinned and Expires may change at
	// any time; Status, Stop, Due, Program, Version, Priority, Restarts, RetryTo and RefusedBy only
	// while the run is not open, otherwise Update returns ErrLocked. Other fields do not change.
	// Update may call change several times; if change returns an error, Update returns it and
	// changes nothing. The store sets Updated to a later time.
	Update(ctx context.Context, runID string, change func(*Info) error) (Info, error)

	// Delete removes a run. If the run is open, the error is ErrLocked.
	Delete(ctx context.Context, runID string) error
}

// A Reader reads runs, even if they are open for writing in this process or another.
// RunID is set in each record that it returns, although it is not in the encoded form.
type Reader interface {
	// Load reads a run. It contains everything that was synced before Load was called, and
	// everything that was appended through the same store.
	Load(ctx context.Context, runID string) (*Run, error)

	// Records yields the records of a run with numbers above after, in order and without gaps: the
	// same ones as in Load. If the store can, it does not read the earlier ones. It ends after an
	// error.
	Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error]

	// Info returns the info of a run. The LastSeq of an open run is at least its value
	// when the run was opened.
	Info(ctx context.Context, runID string) (Info, error)

	// List returns the runs that f selects, the last updated first unless f.Sort is set, without
	// reading their records. It may lag behind Info and Load. A store may place a run that was
	// created with an earlier Updated as if it had been updated when it was created.
	List(ctx context.Context, f Filter) (Page, error)

	// Follow yields the records of a run after the cursor: first the existing ones,
	// and then each one that is appended, in order and without gaps. It ends with an
	// error: the cause of ctx; ErrNotFound if the run does not exist, was deleted, or
	// was replaced by another with its ID; ErrReset if the cursor is not in the history
	// of the run; ErrCorrupt if the run is damaged.
	Follow(ctx context.Context, runID string, after Cursor) iter.Seq2[record.Record, error]

	// Watch yields an event for each existing run, and then one whenever a run is
	// created, changed or deleted. Appended records count as a change only with o.Records. It is
	// not an error if the run o.RunID does not exist: the first event then comes when it is
	// created. Several changes may be combined into one event. Watch ends with an error, such as
	// the cause of ctx.
	Watch(ctx context.Context, o WatchOptions) iter.Seq2[Change, error]
}

// A Cursor is a position in the history of a run: after the record with the number
// Seq, written by Generation. A Generation of 0 matches any. The zero Cursor is the
// beginning.
type Cursor struct{ Generation, Seq uint64 }

// WatchOptions set what Watch yields.
type WatchOptions struct {
	RunID    string // only this run, including changes of its messages; empty for all
	After    string // the Position of the last event that was received; ErrReset if the store cannot continue from there
	Records  bool   // also yield the records that are appended from now on
	Messages bool   // new messages of open runs count as changes
}

// A Change is a change of a run.
type Change struct {
	Position string          // for WatchOptions.After; empty in stores that cannot continue
	Info     Info            // the current info; for a deleted run, the last info
	Deleted  bool            // the run was deleted
	Records  []record.Record // appended since the previous event
}

// OpenOptions configure how a run is opened.
type OpenOptions struct {
	Create   bool     // create the run if it does not exist
	Wait     bool     // wait for another writer to close it
	Metadata Metadata // metadata of a run that is created

	// Retry is stored with the run and replaces what was stored before, even if the
	// run exists. Nil changes nothing.
	Retry RetryLevels

	Owner string // who opens it, for Info and for errors that match ErrLocked

	// Check is called with the info of the run before it is opened, and again if the run changes
	// meanwhile. If it returns an error, Open returns that error and changes nothing. Nil checks
	// nothing.
	Check func(Info) error
}

// A Journal is a run that is open for writing. Append must not be called concurrently; the other
// methods are safe for concurrent use. If Append or Sync returns an error other than that of its
// context, the journal is broken and keeps returning that error.
//
// A store may lose its right to the run, for example because a lease has expired or the directory
// was moved. The errors are then ErrFenced, ErrMaybeStored or ErrLease, and Close does not change
// anything that others can see.
type Journal interface {
	// Restored returns the run as it was found, with the new generation; a new run has
	// no records.
	Restored() *Run

	// Append appends all of the records or none. Their numbers must continue those of the earlier
	// records, starting at 1. It does not wait for the disk or for a server. In a store on one
	// machine, the records survive the end of the process once Append has returned; in a store on a
	// server, some milliseconds later. Without records it does nothing.
	Append(records ...record.Record) error

	// Sync returns when the records up to seq are durable. If seq was not appended, it waits for
	// all records. Concurrent callers share one write to the disk. If ctx ends, Sync stops waiting,
	// but the journal is not broken. After a Close without an error, all records are durable, and
	// Sync returns nil.
	Sync(ctx context.Context, seq uint64) error

	// Notify returns a channel that receives when the inbox of the run may have new messages.
	Notify() <-chan struct{}

	// Lost returns a channel that is closed when the journal may no longer own the run.
	// It is nil if that cannot happen.
	Lost() <-chan struct{}

	// Close ends the generation, syncs, and releases the run, so that others can open it. If that
	// fails, the run counts as interrupted. A second Close returns the same error.
	Close(ctx context.Context, end End) error
}

// An End describes how a generation ended.
type End struct {
	Status Status
	Stop   Stop         // why the run was interrupted or cancelled
	Due    time.Time    // when the run continues by itself; zero if it waits for an answer or has ended
	Usage  record.Usage // of the run, over all generations

	Summary Summary // of the run, over all generations
}

// An ArtifactStore stores large outputs by their content. The reference of an output is the SHA-256
// of its data, in hexadecimal.
type ArtifactStore interface {
	// Put stores data and returns its reference. Data that is already stored is not written again.
	// When Put returns without an error, the artifact is durable. An error that is not caused by
	// the data, such as a full disk, is ErrUnavailable.
	Put(ctx context.Context, data []byte) (reference string, err error)

	// Get returns the data for a reference. The error is ErrNotFound if it does not exist, and
	// ErrCorrupt if the data does not match the reference.
	Get(ctx context.Context, reference string) ([]byte, error)
}
