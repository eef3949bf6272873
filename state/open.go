package state

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrStore is found in the error of a call whose outcome could not be stored:
// it may have taken effect, but nobody will know. The run is interrupted.
var ErrStore = errors.New("state: the run could not be stored")

// Open begins the run in the store, or resumes it: calls that have a recorded
// outcome are answered from it without running, retrying or waiting, and the
// others go on where they stopped. The run is locked until Close; while it is
// open elsewhere, Open is snapshot.ErrLocked, or waits (see [WithWait]).
//
// Answers that were given meanwhile are taken in before anything runs. If the
// store is a snapshot.Inbox, the run hears [Answer] and [Interrupt] from any
// process until Close.
//
// What a run finished with is final: opening it again replays it.
func Open(ctx context.Context, store snapshot.Store, runID string, options ...Option) (*ExecutionState, error) {
	if err := CheckRunID(runID); err != nil {
		return nil, err
	}
	if store == nil {
		return nil, errors.New("state: Open needs a store, such as snapshot.NewFileStore(dir)")
	}
	c := configure(append(options[:len(options):len(options)], WithRunID(runID)))
	journal, err := store.Open(ctx, runID, snapshot.OpenOptions{Create: true, Wait: c.wait, Metadata: c.metadata})
	switch {
	case errors.Is(err, snapshot.ErrLocked) && !c.wait:
		return nil, fmt.Errorf("state: open run %s: %w; with state.WithWait, Open waits for its end", runID, err)
	case err != nil:
		return nil, fmt.Errorf("state: open run %s: %w", runID, err)
	}
	if err := checkRecords(journal.Restored()); err != nil {
		return nil, errors.Join(fmt.Errorf("state: open run %s: %w", runID, err), journal.Close(journal.Restored().Status))
	}
	r := resumeRun(c, journal)
	r.listen(ctx, store)
	return &ExecutionState{run: r}, nil
}

// checkRecords refuses what no run has written.
func checkRecords(found *snapshot.Snapshot) error {
	for i := range found.Records {
		r := &found.Records[i]
		if r.Attempt < 0 || r.Attempt > math.MaxInt32 || r.Delay < 0 || r.Elapsed < 0 {
			return fmt.Errorf("%w: record %d of %s has attempt %d, delay %v, elapsed %v", snapshot.ErrCorrupt, r.Seq, r.Address, r.Attempt, r.Delay, r.Elapsed)
		}
	}
	return nil
}

// Replay reads the run from the store and runs nothing that it has no outcome
// for: agents without one are entered again, and a tool, an LLM or a step
// without one is core.ErrNotRecorded. Nothing is written. A replay that ends
// has proved that it executed nothing and waited for nothing.
func Replay(ctx context.Context, store snapshot.Store, runID string, options ...Option) (*ExecutionState, error) {
	found, err := store.Load(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("state: replay run %s: %w", runID, err)
	}
	if err := checkRecords(found); err != nil {
		return nil, fmt.Errorf("state: replay run %s: %w", runID, err)
	}
	c := configure(append(options[:len(options):len(options)], WithRunID(runID)))
	c.strict, c.settings.Strict = true, true
	return &ExecutionState{run: restoreRun(c, found)}, nil
}

// resumeRun is a run that goes on in the journal.
func resumeRun(c *config, journal snapshot.Journal) *run {
	r := prepareRun(c)
	r.journal = journal
	r.settings.Outputs = true
	r.restore(journal.Restored())
	r.begin()
	return r
}

// restoreRun is a run in memory that goes on from found.
func restoreRun(c *config, found *snapshot.Snapshot) *run {
	r := prepareRun(c)
	r.settings.Outputs = true
	r.restore(found)
	r.begin()
	return r
}

// restore takes over what was recorded.
func (r *run) restore(found *snapshot.Snapshot) {
	if len(found.Records) == 0 && !r.strict {
		return
	}
	r.found = found.Status
	r.settings.Recalls = true
	r.restored = newRestored(found.Records)
	for i := range found.Records {
		r.history.append(&found.Records[i])
		r.questions(&found.Records[i])
	}
	r.published = r.history.len()
	for _, v := range r.restored.valuesOf(core.Address{}) {
		r.values.set(v)
	}
}

// write hands what was kept since the last time to the journal. The lock is
// held.
func (r *run) write() error {
	unwritten := r.unwritten
	r.unwritten = r.unwritten[:0]
	if r.journal == nil {
		return nil
	}
	if r.broken != nil {
		return r.broken
	}
	if err := r.journal.Append(unwritten...); err != nil {
		r.broken = fmt.Errorf("%w: %w", ErrStore, err)
	}
	return r.broken
}

// Sync says which records must have survived a loss of power before their call
// goes on. All of them have survived the process by then.
type Sync uint8

// The sync policies.
const (
	// SyncOutcomes: outcomes, promises of another attempt, questions and
	// answers; and the beginning of calls that must not be repeated. It is
	// the default.
	SyncOutcomes Sync = iota
	SyncAlways        // every record
	SyncNever         // none: the operating system writes when it likes
)

// WithSync sets which records are synced.
func WithSync(policy Sync) Option {
	return func(c *config) {
		if policy > SyncNever {
			c.must(fmt.Errorf("state: WithSync(%d): allowed are SyncOutcomes, SyncAlways and SyncNever", policy))
		}
		c.sync = policy
	}
}

// durable reports whether rec, which comes from s, must be on the disk before
// its call goes on.
func (r *run) durable(s *core.Scope, rec *core.Record) bool {
	switch {
	case r.policy != SyncOutcomes:
		return r.policy == SyncAlways
	case rec.Status == core.StatusStarted:
		return s.MustNotRepeat()
	}
	return rec.IsOutcome() || rec.Status == core.StatusRetrying || rec.Status == core.StatusAwaiting
}

// sync returns when everything up to seq is on the disk.
func (r *run) sync(seq uint64) error {
	err := r.journal.Sync(seq)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%w: %w", ErrStore, err)
	r.mu.Lock()
	r.broken = err
	r.mu.Unlock()
	return err
}

// stop interrupts the run because it cannot be stored any more.
func (r *run) stop(err error) error {
	r.interrupt(&core.InterruptedError{Reason: core.InterruptStore, Cause: err})
	return err
}
