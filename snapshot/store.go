package snapshot

import (
	"context"
	"iter"
	"time"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/retrylevel"
)

// A Store keeps runs, the messages that wait for them, and their large
// outputs. It is for many goroutines. Package storetest checks implementations
// against these rules; the Example WritingAStore of package storekit shows how
// to write one.
//
// Every method, also those of Reader, Inbox and ArtifactStore, refuses a context
// that has ended: it changes nothing, and returns the cause of the context. For an
// invalid run ID it returns the error of [CheckRunID]. Iterators yield these
// errors.
type Store interface {
	Reader
	Inbox
	ArtifactStore

	// Create stores a run that is not open, such as one that was forked, imported or
	// queued, under run.RunID. It is atomic: afterwards the whole run is durably
	// stored, or nothing of it. If a run of that ID exists, the error is ErrExists.
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
	// may change at any time; Status, Due, Program, Version, Priority and Restarts
	// only while the run is not open, otherwise Update returns ErrLocked. Other fields
	// do not change. Update may call change several times; if change returns an error,
	// Update returns it and changes nothing. The store sets Updated to a later time.
	Update(ctx context.Context, runID string, change func(*Info) error) (Info, error)

	// Delete removes a run. It returns ErrLocked for an open one.
	Delete(ctx context.Context, runID string) error
}

// A Reader reads runs, whether or not they are open for writing, in this
// process or another. RunID is set in each record that it returns, although
// it is not in the encoded form.
type Reader interface {
	// Load reads a run. Everything that was synced before Load was called is
	// in it; in stores on one machine, everything that was appended.
	Load(ctx context.Context, runID string) (*Run, error)

	// Records yields the records of a run whose numbers are above after, in order and
	// without holes: the same ones as in Load, without reading those before them if
	// the store can do that. An error ends it.
	Records(ctx context.Context, runID string, after uint64) iter.Seq2[record.Record, error]

	// Info returns what is known of a run. LastSeq of a run that is open is at
	// least that of its opening.
	Info(ctx context.Context, runID string) (Info, error)

	// List returns the runs that f picks, the last updated first, without
	// reading their records. It may lag behind Info and Load.
	List(ctx context.Context, f Filter) (Page, error)

	// Follow yields the records of a run after the cursor: first the existing ones,
	// and then each one that is appended, in order and without holes. It ends with an
	// error: the cause of ctx; ErrNotFound when the run does not exist, was deleted,
	// or was replaced by another of its ID; ErrReset when the cursor is not in the
	// history of the run; ErrCorrupt when the run is damaged.
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

// WatchOptions say what Watch yields.
type WatchOptions struct {
	RunID   string // only this run, also when messages for it come or go; empty for all
	After   string // the Position of the last event that was seen; ErrReset where the store cannot go on from there
	Records bool   // yield the records too that are appended from now on
}

// An Event is a change of a run.
type Event struct {
	Position string          // where to go on with WatchOptions.After; empty in stores that cannot
	Info     Info            // as it is now; of a deleted run, as it was last seen
	Deleted  bool            // the run is gone
	Records  []record.Record // that were appended since the event before
}

// OpenOptions say how a run is opened.
type OpenOptions struct {
	Create   bool     // begin the run if it does not exist
	Wait     bool     // wait for another writer to close it
	Metadata Metadata // of a run that is begun

	// Retry is kept for the run, also for one that exists, in place of what
	// was kept before. Nil leaves that alone.
	Retry retrylevel.Levels

	Owner string // who opens it, in Info and in errors that are ErrLocked; a lease where there is a queue
}

// A Journal is one run open for writing. Append is called by one goroutine at a
// time, the other methods by many. Once Append or Sync has returned an error other
// than that of its context, the journal is broken and returns that error from then
// on.
//
// A store on a server may lose the right to the run: the errors are then
// ErrFenced, ErrUnknown or ErrLease, and Close changes nothing.
type Journal interface {
	// Restored returns the run as it was found, with the new generation; a new run has
	// no records.
	Restored() *Run

	// Append appends records, whose numbers follow those before, from 1; all of
	// them or none. It does not wait for the disk or for a server: on one
	// machine they have survived the process when it returns, elsewhere a round
	// trip later. Without records it does nothing.
	Append(records ...record.Record) error

	// Sync returns when everything up to seq is durable; for a seq that was not
	// appended, when everything is. Callers that wait together share one write
	// to the disk. The end of ctx ends the wait and breaks nothing. After a Close
	// without an error, all is durable, and Sync returns nil.
	Sync(ctx context.Context, seq uint64) error

	// Notify receives when there may be something new in the inbox of the run.
	Notify() <-chan struct{}

	// Lost is closed when the journal may not own the run any more; nil where
	// that cannot happen.
	Lost() <-chan struct{}

	// Close ends the generation, syncs, and lets others open the run. If that
	// fails, the run is interrupted. Closing twice is fine and returns the same
	// error.
	Close(ctx context.Context, end End) error
}

// End is how a generation ended.
type End struct {
	Status Status
	Stop   Stop         // why the run is interrupted or cancelled
	Due    time.Time    // when the run shall go on by itself; zero if it waits for an answer or is over
	Usage  record.Usage // of the run, over all generations
}

// An ArtifactStore keeps large outputs by their content: a reference is the
// SHA-256 of what it refers to, in hexadecimal.
type ArtifactStore interface {
	// Put stores data and returns its reference; data that is there already is
	// not written again. When it returns, the artifact is durable. An error
	// that says nothing about the data, such as a full disk, is ErrUnavailable.
	Put(ctx context.Context, data []byte) (reference string, err error)

	// Get returns the data of a reference. One that does not exist is
	// ErrNotFound, one whose data does not match is ErrCorrupt.
	Get(ctx context.Context, reference string) ([]byte, error)
}
