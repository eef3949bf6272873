package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// ErrStore is wrapped by the error of a call during which the run's store failed. The run is
// interrupted. If the call's outcome could not be stored, the call may have taken effect without
// there being a record of it.
var ErrStore = errors.New("state: the run's store failed")

// Open begins the run in the store, or resumes it. In a resumed run, a call with a recorded outcome
// returns that outcome without running, retrying or waiting, and all other calls continue where
// they stopped. The run is locked until Close. While another process has the run open, Open returns
// snapshot.ErrLocked, or waits (see [WithWait]).
//
// Answers that were posted while the run was closed are recorded before anything runs. Until Close,
// the run accepts [Answer] and [Interrupt] from any process. If a paused run is opened without an
// answer and suspends at the same questions again, nothing is recorded.
//
// The outcome of a run is final: opening the run again replays it, and a root call that is not in
// its records fails with [ErrEnded] (see [WithFurtherCalls]). A run that was cancelled cannot be
// opened: the error is [ErrCancelled]. If calls of the cancelled run must still be compensated,
// Open compensates them before it returns the error (see [WithCompensations]). If ctx ends, the
// compensations stop, and the next opening makes the remaining ones.
func Open(ctx context.Context, store snapshot.Store, runID string, options ...Option) (*ExecutionState, error) {
	if err := checkArguments(store, runID); err != nil {
		return nil, err
	}
	c, err := configure(options, inOpen)
	if err != nil {
		return nil, err
	}
	c.settings.RunID = runID
	if c.artifacts == nil {
		c.artifacts = store
	}
	journal, err := store.Open(ctx, runID, c.openOptions())
	switch {
	case errors.Is(err, snapshot.ErrLocked) && !c.wait:
		return nil, fmt.Errorf("state: open run %s: %w; with state.WithWait, Open waits until that process closes it", runID, err)
	case err != nil:
		return nil, fmt.Errorf("state: open run %s: %w", runID, err)
	}
	found := journal.Restored()
	if !c.hasMetadata {
		c.metadata = found.Metadata.Clone()
	}
	r := newRun(c)
	k := &storeKeeper{runID: runID, generation: found.Generation, store: store, journal: journal, mu: &r.mu}
	r.keeper, r.generation = k, found.Generation
	cancelled := refuseCancelled(ctx, store, journal)
	var uncompensated *uncompensatedError
	if cancelled != nil && !errors.As(cancelled, &uncompensated) {
		return nil, fmt.Errorf("state: open run %s: %w", runID, cancelled)
	}
	if err := c.checkExisting(found); err != nil {
		return nil, errors.Join(err, giveBack(ctx, journal))
	}
	c.rerunFailed = c.rerunFailed && cancelled == nil // failed compensations of a cancelled run are not made again
	if err := r.restore(found); err != nil {
		return nil, errors.Join(fmt.Errorf("state: open run %s: %w", runID, err), giveBack(ctx, journal))
	}
	k.held = cancelled == nil && r.restored != nil && mayRepeat(r.found.Status)
	st := &ExecutionState{run: r}
	r.begin(ctx)
	r.listen(ctx, k)
	if cancelled != nil {
		if c.host.Compensating != nil {
			c.host.Compensating(st)
		}
		return nil, fmt.Errorf("state: open run %s: %w", runID, r.endCancelled(ctx))
	}
	return st, nil
}

// checkArguments checks the arguments of Open, Replay and Validate.
func checkArguments(store snapshot.Store, runID string) error {
	if err := snapshot.CheckRunID(runID); err != nil {
		return err
	}
	return checkStore(store)
}

// checkStore checks a store. It accepts any of the interfaces through which this package uses
// stores.
func checkStore(store any) error {
	if store == nil {
		return errors.New("state: the store is nil; filestore.New(dir), for example, returns one")
	}
	return nil
}

// giveBack closes a journal and leaves the run unchanged.
func giveBack(ctx context.Context, journal snapshot.Journal) error {
	found := journal.Restored()
	return closeJournal(ctx, journal, snapshot.End{Status: found.Status, Stop: found.Stop, Due: found.Due, Usage: found.Usage, Summary: found.Summary})
}

// closeJournal closes a journal even if the caller's context has ended. Otherwise the run would stay
// open for as long as this process runs.
func closeJournal(ctx context.Context, journal snapshot.Journal, end snapshot.End) error {
	return journal.Close(context.WithoutCancel(ctx), end)
}

// Replay reads the run from the store. No tool, LLM or step is executed: if a call to one of these
// has no recorded outcome, the error is core.ErrNotRecorded. If the run would continue with this
// call, the program is also interrupted there. Agents without an outcome are entered again. A
// replay writes nothing and does not wait.
func Replay(ctx context.Context, store snapshot.Store, runID string, options ...Option) (*ExecutionState, error) {
	if err := checkArguments(store, runID); err != nil {
		return nil, err
	}
	c, err := configure(options, inReplay)
	if err != nil {
		return nil, err
	}
	return replay(ctx, store, runID, c)
}

func replay(ctx context.Context, store snapshot.Store, runID string, c *config) (*ExecutionState, error) {
	found, err := store.Load(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("state: replay run %s: %w", runID, err)
	}
	c.settings.RunID = runID
	if c.artifacts == nil {
		c.artifacts = store
	}
	if !c.hasMetadata {
		c.metadata = found.Metadata.Clone()
	}
	c.settings.Strict, c.settings.Replays = true, true
	r := newRun(c)
	r.settings.PutArtifact = referenceTo
	if err := r.restore(found); err != nil {
		return nil, fmt.Errorf("state: replay run %s: %w", runID, err)
	}
	r.begin(ctx)
	return &ExecutionState{run: r}, nil
}

// restore restores the run's state from its records.
func (r *run) restore(found *snapshot.Run) (err error) {
	r.settings.Outputs = true
	if found.Len() == 0 && !r.settings.Strict {
		return nil
	}
	if r.found = found.Info; found.Status == snapshot.StatusRunning {
		r.found.Status, r.found.Stop = snapshot.StatusInterrupted, snapshot.Stop{Reason: record.InterruptCrash}
	}
	if r.restored, err = newRestoredRun(found); err != nil {
		return err
	}
	r.settings.History = r
	if r.keeper.isStored() && (r.config.rerunFailed || found.RetryTo > r.restored.retryTo) {
		if r.config.rerunFailed = !r.restored.isUndoing(); r.config.rerunFailed {
			r.restored.retryTo = uint64(found.Len())
		}
	}
	switch k := r.keeper.(type) {
	case *storeKeeper:
		if r.config.divergence != DivergenceRerun {
			r.restored.dropInside()
		}
		k.tail.n, k.tail.written = found.Len(), found.Len()
	case *memoryKeeper:
		k.restored = found
	}
	r.versions = r.restored.versions
	r.ledger = r.restored.ledger
	if len(r.restored.compensable) > 0 {
		r.settings.Completed = r.completed
	}
	r.useKeys()
	r.watchDivergence()
	r.effects, r.effects.keepsOutputs = r.restored.effects, true
	r.settings.Effects = len(r.effects.inherited) > 0 || r.rerun.since != nil
	r.out.published = found.Len()
	for _, seq := range r.restored.questions {
		rec, err := found.Record(seq)
		if err != nil {
			return err
		}
		r.questions.follow(&rec, seq)
	}
	values, err := r.restored.decodeValues(r.restored.valuesOf(record.Address{}))
	for _, v := range values {
		r.values.set(v)
	}
	return err
}

// readRecords returns the history so far, from the store if the run has one. If reading the store
// fails, it returns an error and the records that have not been stored yet.
func (r *run) readRecords(ctx context.Context) ([]record.Record, error) {
	r.mu.Lock()
	read := r.keeper.read()
	r.mu.Unlock()
	return read(ctx)
}

// write stores what the keeper has received since the last write, unless that is held back. r.mu
// must be held.
func (r *run) write() error {
	err := r.keeper.write()
	if err == nil {
		r.forget()
	}
	return err
}

// SyncPolicy specifies which records must be on disk, and thus survive a power failure, before the
// call that made them continues. If only the process ends, no record is lost, except with a store
// on a server, to which records are sent within a few milliseconds; see [snapshot.Journal].
type SyncPolicy uint8

// The sync policies.
const (
	// SyncOutcomes syncs outcomes, failed attempts that will be retried, questions, answers, and
	// the starts of calls that must not be repeated. It is the default.
	SyncOutcomes SyncPolicy = iota
	SyncAlways              // every record
	SyncNever               // no records: the operating system decides when to write
)

// WithSync sets which records are synced.
func WithSync(policy SyncPolicy) Option {
	return func(c *config) {
		if policy > SyncNever {
			c.refuse(fmt.Errorf("state: WithSync(%d): want SyncOutcomes, SyncAlways or SyncNever", policy))
		}
		c.sync = policy
		c.limitTo("WithSync", inOpen)
	}
}

// mustBeDurable reports whether rec, a record from s, must be on disk before its call continues.
func (r *run) mustBeDurable(s *engine.Scope, rec *record.Record) bool {
	switch {
	case r.config.sync != SyncOutcomes:
		return r.config.sync == SyncAlways
	case r.config.host.RootsAtClose && rec.Kind.IsCall() && !rec.WillRetry && isRootCall(s) && rec.Status != record.StatusStarted:
		return false
	case rec.Status == record.StatusStarted:
		return mustNotRepeat(s, rec)
	}
	return rec.IsOutcome() || rec.WillRetry || rec.Status == record.StatusAwaiting
}

// stop interrupts the run because it can no longer be stored, and returns err.
func (r *run) stop(err error) error {
	reason := record.InterruptStore
	if isLost(err) {
		reason = record.InterruptLeaseLost
	}
	r.interrupt(&core.InterruptedError{Reason: reason, Cause: err})
	return err
}
