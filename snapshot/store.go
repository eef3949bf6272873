package snapshot

import (
	"context"
	"iter"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Store keeps runs, the messages that wait for them, and their large
// outputs. It must be safe for concurrent use. Package storetest checks implementations
// against these rules; package storekit makes a store of nine methods, and its
// example sqlitestore is one on SQLite.
//
// If the context has ended, every method, including those of Reader, Inbox and
// ArtifactStore, changes nothing and returns the cause of the context. For an invalid
// run ID it returns the error of [CheckRunID]. Iterators yield these errors.
type Store interface {
	Reader
	Inbox
	ArtifactStore

	// Create stores a run that is not open, such as one that was forked, imported or
	// queued, under run.RunID. It is atomic: it stores the whole run durably, or
	// nothing. If a run with that ID exists, the error is ErrExists.
	// Info.Status is kept, except that running is stored as interrupted. Open, Owner
	// and LastSeq are set by the store.
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

	// Update changes the Info of a run, and returns it. Metadata, Pinned and Expires
	// may change at any time; Status, Stop, Due, Program, Version, Priority, Restarts,
	// RetryTo and RefusedBy only while the run is not open, otherwise Update returns
	// ErrLocked. Other fields do not change. Update may call change several times; if change returns an error,
	// Update returns it and changes nothing. The store sets Updated to a later time.
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

	// Records yields the records of a run with numbers above after, in order and without
	// gaps: the same ones as in Load, without reading the earlier ones if the store can
	// do that. It ends after the first error.
	Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error]

	// Info returns the info of a run. The LastSeq of an open run is at least its value
	// when the run was opened.
	Info(ctx context.Context, runID string) (Info, error)

	// List returns the runs that f selects, the last updated first, without reading their
	// records. It may lag behind Info and Load.
	List(ctx context.Context, f Filter) (Page, error)

	// Follow yields the records of a run after the cursor: first the existing ones,
	// and then each one that is appended, in order and without gaps. It ends with an
	// error: the cause of ctx; ErrNotFound if the run does not exist, was deleted, or
	// was replaced by another with its ID; ErrReset if the cursor is not in the history
	// of the run; ErrCorrupt if the run is damaged.
	Follow(ctx context.Context, runID string, after Cursor) iter.Seq2[record.Record, error]

	// Watch yields an event for each existing run, and then one whenever a run is
	// created, changed or deleted. Records that were appended are a change only with
	// o.Records. It is not an error if the run o.RunID does not exist: the first event
	// then comes when it is created. Several changes may be combined into one event.
	// Watch ends with an error, such as the cause of ctx.
	Watch(ctx context.Context, o WatchOptions) iter.Seq2[Event, error]
}

// A Cursor is a position in the history of a run: after the record with the number
// Seq, written by Generation. A Generation of 0 matches any. The zero Cursor is the
// beginning.
type Cursor struct{ Generation, Seq uint64 }

// WatchOptions set what Watch yields.
type WatchOptions struct {
	RunID   string // only this run, including changes of its messages; empty for all
	After   string // the Position of the last event that was received; ErrReset if the store cannot continue from there
	Records bool   // also yield the records that are appended from now on
}

// An Event is a change of a run.
type Event struct {
	Position string          // for WatchOptions.After; empty in stores that cannot continue
	Info     Info            // the present info; of a deleted run, the last
	Deleted  bool            // the run was deleted
	Records  []record.Record // appended since the previous event
}

// OpenOptions set how a run is opened.
type OpenOptions struct {
	Create   bool     // begin the run if it does not exist
	Wait     bool     // wait for another writer to close it
	Metadata Metadata // of a run that is begun

	// Retry is stored with the run and replaces what was stored before, even if the
	// run exists. Nil changes nothing.
	Retry RetryLevels

	Owner string // who opens it, for Info and for errors that are ErrLocked; the lease if there is a queue

	// Check is called with what is known of the run, before it is opened; several
	// times if the run changes meanwhile. If it returns an error, Open returns that
	// and changes nothing. Nil checks nothing.
	Check func(Info) error
}

// A Journal is a run that is open for writing. Append must not be called concurrently; the
// other methods are safe for concurrent use. Once Append or Sync has returned an error
// other than that of its context, the journal is broken and keeps returning that error.
//
// A store may lose the right to the run, such as by a lease that is over or a directory
// that was moved: the errors are then ErrFenced, ErrUnknown or ErrLease, and Close changes
// nothing that others find.
type Journal interface {
	// Restored returns the run as it was found, with the new generation; a new run has
	// no records.
	Restored() *Run

	// Append appends all of the records or none. Their numbers must follow those of the
	// earlier records, from 1. It does not wait for the disk or for a server: on one
	// machine the records survive the process from its return on, with a server some
	// milliseconds later. Without records it does nothing.
	Append(records ...record.Record) error

	// Sync returns when the records up to seq are durable; for a seq that was not
	// appended, when all records are. Concurrent callers share one write to the disk.
	// The end of ctx ends the wait and does not break the journal. After a Close without
	// an error, all records are durable, and Sync returns nil.
	Sync(ctx context.Context, seq uint64) error

	// Notify returns a channel that receives when the inbox of the run may have a new
	// message.
	Notify() <-chan struct{}

	// Lost returns a channel that is closed when the journal may no longer own the run.
	// It is nil if that cannot happen.
	Lost() <-chan struct{}

	// Close ends the generation, syncs, and releases the run, so that others can open
	// it. If that fails, the run is interrupted. A second Close returns the same error.
	Close(ctx context.Context, end End) error
}

// End is how a generation ended.
type End struct {
	Status Status
	Stop   Stop         // why the run is interrupted or cancelled
	Due    time.Time    // when the run continues by itself; zero if it waits for an answer or has ended
	Usage  record.Usage // of the run, over all generations

	Standing Standing // of the run, over all generations
}

// An ArtifactStore stores large outputs by their content: a reference is the SHA-256 of
// the data, in hexadecimal.
type ArtifactStore interface {
	// Put stores data and returns its reference. Data that is stored already is not
	// written again. When Put returns, the artifact is durable. An error that is not
	// about the data, such as a full disk, is ErrUnavailable.
	Put(ctx context.Context, data []byte) (reference string, err error)

	// Get returns the data of a reference. If it does not exist, the error is
	// ErrNotFound; if the data does not match it, ErrCorrupt.
	Get(ctx context.Context, reference string) ([]byte, error)
}
