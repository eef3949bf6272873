package state

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// run is the run to which an ExecutionState and its Handles belong. It implements engine.Run and
// engine.History.
type run struct {
	config     *config // the configuration with which it was opened
	settings   *engine.Settings
	root       *engine.Root
	keeper     keeper
	inbox      *inbox // nil if the run is in memory
	began      time.Time
	generation uint64        // the number of this opening of the run, from 1
	found      snapshot.Info // as the previous opening left the run; zero for a new run
	restored   *restoredRun  // nil for a new run

	mu        sync.Mutex    // guards the fields below; never held while user code runs
	ledger    record.Ledger // the ledger of the records up to ledger.Last; see tally
	report    Report        // counts that the ledger does not have
	questions questions
	values    values
	versions  versions
	effects   effects
	rerun     rerun
	reworded  rewordings
	rootCalls rootCalls
	life      lifecycle
	out       publication
}

// newRun returns a run in memory that has not begun yet.
func newRun(c *config) *run {
	r := &run{
		config: c, settings: c.settings, began: time.Now(), generation: 1,
		keeper: &memoryKeeper{history{runID: c.settings.RunID, generation: 1}},
		life:   lifecycle{done: make(chan struct{}), contexts: make(map[int]context.CancelCauseFunc)},
	}
	r.settings.Tags, r.settings.Counts = c.metadata.Tags, r.counts
	r.effects.keepsOutputs = true
	r.out.quiet = sync.NewCond(&r.mu)
	r.root = engine.NewRoot(r, c.settings)
	if c.artifacts != nil {
		r.settings.PutArtifact = r.putArtifact
	}
	if c.checker != nil {
		r.settings.Poll = (&checker{ask: c.checker, run: r}).check
	}
	return r
}

// base returns r. A validation inherits this method from its run.
func (r *run) base() *run { return r }

// begin records that the run begins or is resumed.
func (r *run) begin(ctx context.Context) {
	rec := record.Record{Time: r.began.UTC().Round(0), Kind: record.KindRun, Status: record.StatusStarted, Name: r.config.metadata.Pipeline}
	if r.config.rerunFailed {
		rec.Reason = record.ReasonRetry
	}
	if r.config.metadata.Description != "" {
		rec.Detail = &record.Detail{Message: r.config.metadata.Description}
	}
	if attributes := r.openingAttributes(ctx); attributes != nil {
		if rec.Detail == nil {
			rec.Detail = new(record.Detail)
		}
		rec.Detail.Metadata = attributes
	}
	r.mu.Lock()
	r.keep(&rec)
	_ = r.write() // if it fails, the first call returns the error again
	r.publishAndUnlock()
}

// now returns the current time in the form used in records.
func now() time.Time { return time.Now().UTC().Round(0) }

// counts is [engine.Settings].Counts.
func (r *run) counts() record.Counts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tally().Counts()
}

// Append implements engine.Run. The record is numbered and kept in a single step; records are
// published in the same order.
func (r *run) Append(s *engine.Scope, appended record.Record) error {
	rec := &appended
	var tooLarge []string // parts of the record's error that are not kept
	if r.keeper.isStored() {
		tooLarge = recordError(rec)
	}
	r.mu.Lock()
	if r.life.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	if !accepts(s, rec) {
		if rec.Kind.IsCall() {
			r.values.drop(s)
		}
		r.mu.Unlock()
		return core.ErrAttemptOver
	}
	if r.restored != nil && rec.Kind.IsCall() {
		if err := r.resume(s, rec); err != nil {
			r.mu.Unlock()
			return r.stop(err)
		}
		r.restored.loosenAfter(rec, r.restored.calls[rec.Address])
		r.restored.replace(rec)
	}
	if r.values.pending != nil {
		r.settleValues(s, rec)
	}
	if len(r.rerun.discarded) > 0 && beginsAnew(rec) {
		r.beginAnew(rec)
	}
	if r.keeper.holds() && mustNotRepeat(s, rec) {
		r.keeper.release()
	}
	if len(r.reworded.sites) > 0 {
		r.reworded.mark(rec)
	}
	r.keep(rec)
	if rec.IsParked() && (r.questions.parked.IsZero() || rec.NextAttemptAt().Before(r.questions.parked)) {
		r.questions.parked = rec.NextAttemptAt()
	}
	if rec.Kind.IsCall() {
		r.rootCalls.follow(s, rec)
	}
	left := r.effects.leftBy(rec)
	if err := r.storeAndUnlock(s, rec); err != nil {
		return err
	}
	if len(left) > 0 {
		r.warnLeftOver(s.Parent(), rec, left)
	}
	if len(tooLarge) == 0 {
		return nil
	}
	r.warnTooLarge(s.Parent(), rec.Address, tooLarge)
	return nil
}

// warnTooLarge records a warning that some parts of an error at a were not kept.
func (r *run) warnTooLarge(s *engine.Scope, a record.Address, parts []string) {
	_ = r.Append(s, record.Record{ // if that attempt has ended, the warning is lost
		Time: now(), Address: a, Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: fmt.Sprintf("the error has more than 64 KB of %s: errors.As finds it now, "+
			"but not after a resume", strings.Join(parts, ", "))},
	})
}

// recordError replaces the record's error with its recorded form, because the error's methods are
// user code, which must not run under the lock. If a started record repeats the error of a failed
// attempt, it gets a short form of the error.
//
// recordError returns the registered types in the error whose values are too large to be kept.
func recordError(rec *record.Record) (tooLarge []string) {
	if rec.Err == nil || rec.Interrupt() != nil {
		return nil
	}
	recorded := record.ErrorOf(rec.Err)
	tooLarge = recorded.TooLarge()
	if rec.Status == record.StatusStarted {
		recorded, tooLarge = recorded.Brief(), nil
	}
	rec.Err = recorded
	return tooLarge
}

// retryingRecord returns the retrying record that follows rec, a failed record with
// WillRetry.
func (r *run) retryingRecord(rec *record.Record) record.Record {
	if r.keeper.isStored() {
		return briefRetryingRecord(rec)
	}
	next := rec.Retrying()
	next.Seq++
	return next
}

// storeAndUnlock stores the kept records, publishes them and, if necessary, waits until they are
// durable. r.mu must be held.
func (r *run) storeAndUnlock(s *engine.Scope, rec *record.Record) error {
	if !r.keeper.isStored() {
		r.publishLatestAndUnlock(rec)
		return nil
	}
	err := r.write()
	seq, must := uint64(r.keeper.len()), r.mustBeDurable(s, rec)
	if err != nil {
		r.mu.Unlock()
		return r.stop(err)
	}
	r.publishLatestAndUnlock(rec)
	if !must {
		return nil
	}
	if err := r.keeper.sync(seq); err != nil {
		return r.stop(err)
	}
	return nil
}

// accepts reports whether rec, a record from s, may still be appended. A record of a call is
// accepted while the attempt around the call is running, and any other record while the attempt s
// is running.
func accepts(s *engine.Scope, rec *record.Record) bool {
	if s != nil && rec.Kind.IsCall() {
		s = s.Parent()
	}
	return !s.Closed()
}

// Claim implements engine.History. It publishes nothing, because a publisher that makes a call
// would wait for the lock under which the call is claimed.
func (r *run) Claim(s *engine.Scope, c record.Claim, input engine.ClaimedInput) (found *record.Progress, onRecord bool, err error) {
	found, onRecord, differs, err := r.lookUpClaim(s, &c, input)
	switch {
	case differs != nil:
		if differs.How == "input" {
			differs.Fields = append(differs.Fields, r.changedInput(c.Address, input)...)
		}
		err = r.handleDivergence(differs)
	case err == nil && !s.Closed():
		if m := r.compareRequest(c, found != nil && found.HasOutcome(), input); !m.recordedAs.IsZero() {
			return r.claimSwapped(s, c, found, onRecord, m)
		} else if m.isReworded {
			r.reportReworded(s, c)
		}
	}
	return found, onRecord, err
}

// lookUpClaim is like Claim, but returns a difference instead of handling it. It sets the hash of
// c's input.
func (r *run) lookUpClaim(s *engine.Scope, c *record.Claim, input engine.ClaimedInput) (found *record.Progress, onRecord bool, differs *core.DivergenceError, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.restored.calls[c.Address]
	c.Input = r.hashAsRecorded(t, *c, input)
	if s.Closed() || r.life.closed {
		return nil, false, nil, nil
	}
	if c.Kind != record.KindQuestion && r.rerun.since != nil {
		r.followClaim(s, *c)
	}
	isAnew := r.rerun.isDiscarded(c.Address)
	if !isAnew {
		found = r.progressAfterUndo(c.Address, r.restored.progressOf(t, c.Address))
	}
	recorded := r.restored.ordinals[s.Path()]
	if r.config.divergence != DivergenceRerun {
		if d := r.restored.divergenceOf(r.settings.RunID, s.Path(), recorded, t, *c, isAnew); d != nil {
			return found, false, d, nil
		}
	}
	if err := r.refuseFurther(s, *c); err != nil {
		return nil, false, nil, err
	}
	if err := r.stopAtEnd(s, *c, found); err != nil {
		return nil, false, nil, err
	}
	if found != nil && t.HasOutcome() && !found.HasOutcome() {
		r.restored.ordinals.uncheckAfter(c.Address, r.restored.calls) // the call is made again
	}
	if t != nil {
		t.asked = true
	}
	was := recorded.recorded(c.Ordinal)
	return found, was != nil && was.matches(*c), nil, nil
}

// Outcome implements engine.History. If the store is unreachable, the run is interrupted and can
// continue once the store is reachable again, because nothing is wrong with the run's records.
func (r *run) Outcome(s *engine.Scope) (engine.Outcome, error) {
	outcome, err := r.readOutcome(s)
	if errors.Is(err, snapshot.ErrUnavailable) {
		err = r.stop(fmt.Errorf("%w: %w", ErrStore, err))
	}
	return outcome, err
}

func (r *run) readOutcome(s *engine.Scope) (engine.Outcome, error) {
	seq := r.outcomeOf(s.Address())
	output, artifact, completed, err := r.restored.found.Output(seq)
	switch {
	case err != nil:
		return engine.Outcome{}, err
	case !completed:
		failed, err := r.restored.found.Record(seq)
		return engine.Outcome{Failed: &failed, Note: r.noteOnFailure(s, &failed)}, err
	case artifact != "" && len(output) == 0:
		output, err = r.readArtifact(s.Context(context.Background()), s.Address(), artifact)
	}
	return engine.Outcome{Output: output}, err
}

// outcomeOf returns the number of the record with the outcome of the call at a.
func (r *run) outcomeOf(a record.Address) uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.restored.calls[a].Last
}

// Replay implements engine.History.
func (r *run) Replay(s *engine.Scope, traced *record.Record) error {
	r.mu.Lock()
	if err := r.applyOutcome(s); err != nil {
		r.mu.Unlock()
		return err
	}
	a := s.Address()
	if kind := r.restored.calls[a].kind; traced == nil || !kind.IsParallel() { // otherwise, the calls inside it are counted
		l := r.tally()
		l.Add(&record.Record{Kind: kind, Address: a, Generation: l.Generation, Status: record.StatusRecovered, Replayed: true})
	}
	r.publishAndUnlock()
	return nil
}

// applyOutcome restores what was stored with the recalled outcome of s's call. r.mu must be held.
func (r *run) applyOutcome(s *engine.Scope) error {
	a := s.Address()
	if len(r.config.publishers) > 0 || isRootCall(s) {
		outcome, err := r.restored.found.Record(r.restored.calls[a].Last)
		if err != nil {
			return err
		}
		if err := r.republish(&outcome); err != nil {
			return err
		}
		defer r.rootCalls.noteOutcome(s, &outcome)
	}
	r.values.drop(s) // drop the values of a handler that ran again; they are restored below
	return r.takeValues(s, r.restored.valuesOf(a), r.rerun.since[a])
}

// republish queues a recalled outcome for publishing. r.mu must be held.
func (r *run) republish(outcome *record.Record) error {
	if len(r.config.publishers) == 0 {
		return nil
	}
	recovered, err := r.recordsToPublish(outcome, r.isReported(outcome.Address))
	r.out.recovered = append(r.out.recovered, recovered...)
	return err
}

// keep gives rec the next number and adds it to the history, along with the retrying record that
// follows it, if any. r.mu must be held.
func (r *run) keep(rec *record.Record) {
	if m, ok := r.keeper.(*memoryKeeper); ok {
		rec.RunID, rec.Seq, rec.Generation = r.settings.RunID, uint64(m.len())+1, r.generation
		m.append(rec) // add would copy the record
	} else {
		r.keepStored(rec)
	}
	r.effects.follow(rec)
	r.questions.follow(rec, rec.Seq)
}

// keepStored does the work of keep for a run in a store.
func (r *run) keepStored(rec *record.Record) {
	rec.RunID, rec.Seq, rec.Generation = r.settings.RunID, uint64(r.keeper.len())+1, r.generation
	if r.keeper.holds() && r.isNews(rec) {
		r.keeper.release()
	}
	r.keeper.add(*rec)
	r.ledger.Add(rec)
	if rec.WillRetry {
		r.ledger.Last++ // for the retrying record, which adds nothing new
	}
}

// tally returns the ledger of all records so far. A run in memory adds its records to the ledger
// only here, because adding a record takes a fifth of a call's time and most programs never need
// the ledger. A run in a store adds each record at once, because it drops records from memory. r.mu
// must be held.
func (r *run) tally() *record.Ledger {
	for i := int(r.ledger.Last); i < r.keeper.len(); i++ {
		rec := r.keeper.at(i)
		r.ledger.Add(&rec)
	}
	return &r.ledger
}

// forget drops those records from memory that are both stored and published. r.mu must be held.
func (r *run) forget() {
	published := r.out.published
	if len(r.config.publishers) == 0 {
		published = r.keeper.len()
	}
	r.keeper.forget(published)
}

// recordsToPublish returns the records to publish for a recalled call: one recovered record, or the
// old records of the call and of the calls inside it.
func (r *run) recordsToPublish(outcome *record.Record, diverges bool) ([]record.Record, error) {
	if !r.config.republish {
		rec := *outcome
		rec.Status, rec.Seq, rec.Replayed = record.StatusRecovered, 0, true
		if diverges {
			mark(&rec, "diverged")
		}
		if r.reworded.calls[rec.Address] {
			mark(&rec, "reworded")
		}
		return []record.Record{rec}, nil
	}
	old, err := r.restored.recordsOf(outcome.Address)
	for i := range old {
		old[i].RunID, old[i].Replayed = r.settings.RunID, true
	}
	return old, err
}

// readArtifact returns the output of the call at a.
func (r *run) readArtifact(ctx context.Context, a record.Address, reference string) ([]byte, error) {
	if r.config.artifacts == nil {
		return nil, fmt.Errorf("state: %s: its output is artifact %s; open the run with the artifact store that contains it (state.WithArtifacts)", a, reference)
	}
	data, err := r.config.artifacts.Get(ctx, reference)
	switch {
	case errors.Is(err, snapshot.ErrUnavailable):
		return nil, fmt.Errorf("state: %s: its output cannot be read: artifact %s: %w", a, reference, err)
	case err != nil:
		return nil, fmt.Errorf("state: %s: its output cannot be read: %w; put the artifact %s back, or fork the run before that call (state.Fork), so that the call is made again",
			a, err, reference)
	}
	return data, nil
}

// putArtifact is [engine.Settings].PutArtifact. If the store cannot write at all, for example
// because the disk is full, the call does not fail. Instead, the run is interrupted and the call
// has no outcome, as when a record cannot be stored.
func (r *run) putArtifact(ctx context.Context, encoded []byte) (string, error) {
	reference, err := r.config.artifacts.Put(ctx, encoded)
	switch {
	case errors.Is(err, snapshot.ErrUnavailable):
		return "", r.stop(fmt.Errorf("%w: %w: artifact of %d bytes: %w", ErrStore, core.ErrStorage, len(encoded), err))
	case err != nil:
		return "", fmt.Errorf("state: artifact of %d bytes: %w", len(encoded), err)
	}
	return reference, nil
}

// referenceTo replaces putArtifact in a run that stores nothing. It returns the reference that
// putArtifact would return.
func referenceTo(_ context.Context, encoded []byte) (string, error) {
	return fmt.Sprintf("%x", sha256.Sum256(encoded)), nil
}

func (r *run) log(s *engine.Scope, severity slog.Level, message string, metadata map[string]any) {
	rec := record.Record{
		Time: now(), Kind: record.KindLog, Status: record.StatusRecorded,
		Detail: &record.Detail{Severity: severity, Message: message, Metadata: cloneMetadata(metadata)},
	}
	if s != nil {
		rec.Address = s.Address()
	}
	// A log line that arrives too late is dropped, as documented.
	_ = r.Append(s, rec)
}
