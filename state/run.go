package state

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// run is the run behind its handles. It implements core.Run.
type run struct {
	settings   *core.Settings
	root       *core.Root
	publishers []Publisher
	artifacts  Artifacts
	checker    *checker // nil without one
	metadata   Metadata
	began      time.Time

	journal     snapshot.Journal // nil in memory
	restored    *restored        // nil for a run that is new
	found       Status           // what the run was left with; empty for one that is new
	strict      bool             // nothing is executed
	rerunFailed bool
	divergence  Divergence
	policy      Sync
	republish   bool
	validation  *validation // nil unless the run is one
	inbox       *inbox      // nil if the store has none

	mu          sync.Mutex // guards what follows; never held while others' code runs
	quiet       *sync.Cond // signalled when a call ends and when publishing pauses
	history     history
	published   int  // records of the history that were published
	publishing  bool // somebody is at it
	ending      bool // Close has begun
	closed      bool // the last record is in the history
	done        chan struct{}
	closeErr    error
	contexts    map[int]context.CancelCauseFunc
	nextContext int
	interrupted *core.InterruptedError
	timeout     *time.Timer
	values      values
	course      course
	unwritten   []core.Record // kept, and not yet in the journal
	broken      error         // why nothing can be stored any more
	recovered   []core.Record // recalled, and not yet published
	report      Report
	asked       map[string]bool   // questions, by ID
	answers     map[string][]byte // to questions, by ID

	panics atomic.Int64 // of publishers
}

// newRun is a run in memory.
func newRun(c *config) *run {
	r := prepareRun(c)
	r.begin()
	return r
}

func prepareRun(c *config) *run {
	r := &run{
		settings: c.settings, publishers: c.publishers, artifacts: c.artifacts, metadata: c.metadata,
		strict: c.strict, rerunFailed: c.rerunFailed, divergence: c.divergence, policy: c.sync, republish: c.republish, began: time.Now(),
		done: make(chan struct{}), contexts: make(map[int]context.CancelCauseFunc),
	}
	r.history.runID = c.settings.RunID
	r.quiet = sync.NewCond(&r.mu)
	r.root = core.NewRoot(r)
	if c.checker != nil {
		r.checker = &checker{ask: c.checker, run: r}
		r.settings.Check = r.checker.check
	}
	return r
}

// begin records that the run begins, or goes on.
func (r *run) begin() {
	rec := core.Record{Time: r.began.UTC().Round(0), Kind: core.KindRun, Status: core.StatusStarted, Name: r.metadata.Pipeline}
	if r.metadata.Description != "" {
		rec.Detail = &core.Detail{Message: r.metadata.Description}
	}
	r.mu.Lock()
	r.keep(&rec)
	_ = r.write() // a journal that is broken already says so at the first call
	r.publish()
}

// now is the time as records have it.
func now() time.Time { return time.Now().UTC().Round(0) }

// Settings implements core.Run.
func (r *run) Settings() *core.Settings { return r.settings }

// Append implements core.Run. Numbering and keeping are one step; publishing
// follows in the same order.
func (r *run) Append(s *core.Scope, rec *core.Record) error {
	if r.journal != nil && rec.Err != nil && rec.Interrupt() == nil {
		rec.Err = core.Recorded(rec.Err) // its methods are the user's, and must not run under the lock
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return ErrClosed
	}
	if !s.Accepts(rec) {
		if rec.Kind.IsCall() {
			r.values.drop(s.ID())
		}
		r.mu.Unlock()
		return core.ErrAttemptOver
	}
	if rec.Status != core.StatusStarted && r.values.pending != nil {
		r.settleValues(s, rec)
	}
	if r.validation != nil {
		r.validation.compare(rec)
	}
	r.keep(rec)
	if rec.Kind.IsCall() {
		r.course.follow(s, rec)
		r.report.count(rec)
		if r.ending {
			r.quiet.Broadcast()
		}
	}
	if rec.WillRetry {
		rec.Retry()
		r.keep(rec)
	}
	if r.journal == nil {
		r.publishOne(rec)
		return nil
	}
	return r.store(s, rec)
}

// store writes what was kept to the journal, publishes it and, where it must
// be, waits until it is on the disk. The lock is held, and released.
func (r *run) store(s *core.Scope, rec *core.Record) error {
	err := r.write()
	seq, must := uint64(r.history.len()), r.durable(s, rec)
	if err != nil {
		r.mu.Unlock()
		return r.stop(err)
	}
	r.publishOne(rec)
	if !must {
		return nil
	}
	if err := r.sync(seq); err != nil {
		return r.stop(err)
	}
	return nil
}

// Recall implements core.Run.
func (r *run) Recall(s *core.Scope, kind core.Kind, input core.Hash) *core.Recalled {
	a := s.Address()
	r.mu.Lock()
	if s.Parent().Closed() || r.closed {
		r.mu.Unlock()
		return nil
	}
	found := r.restored.recall(a, kind, r.rerunFailed)
	if v := r.validation; v != nil {
		found = v.recall(a, kind, input, found)
	}
	if found != nil && r.restored.diverges(a, input) {
		r.report.Diverged = append(r.report.Diverged, a)
		if r.divergence == DivergenceFail {
			r.mu.Unlock()
			return &core.Recalled{Diverged: true}
		}
	}
	if found == nil || found.Outcome == nil {
		r.reenter(s, kind, found)
		r.mu.Unlock()
		if r.strict && kind != core.KindAgent && (found == nil || found.Refused == nil) {
			return &core.Recalled{NotRecorded: true}
		}
		return found
	}
	r.takeValues(s, r.restored.valuesOf(a))
	r.course.judge(s, found.Outcome)
	r.report.Restored++
	if len(r.publishers) > 0 {
		r.recovered = append(r.recovered, r.toPublish(found.Outcome)...)
	}
	r.publish()
	return r.load(s, found)
}

// reenter prepares a call that goes on: what the calls of its earlier attempts
// wrote is there for everyone. The lock is held.
func (r *run) reenter(s *core.Scope, kind core.Kind, found *core.Recalled) {
	if found == nil {
		return
	}
	if r.strict {
		found.Wait = 0 // a replay waits for nothing
	}
	if kind == core.KindAgent {
		r.takeValues(s, r.restored.valuesBefore(s.Address(), found.Attempt))
	}
}

// takeValues gives restored values to everyone. The lock is held.
func (r *run) takeValues(s *core.Scope, restored []value) {
	for _, v := range restored {
		for around := s.Parent(); around != nil; around = around.Parent() {
			r.values.forget(around.ID(), v.slot) // as when the call completed
		}
		r.values.set(v)
	}
}

// keep gives rec its number and puts it into the history. The lock is held.
func (r *run) keep(rec *core.Record) {
	r.history.append(rec)
	r.questions(rec)
	if r.journal != nil {
		kept := *rec
		kept.Seq = uint64(r.history.len())
		r.unwritten = append(r.unwritten, kept)
	}
}

// publish tells the publishers what is new, and unlocks. Whoever comes while
// somebody is at it leaves the work to them: so publishing is in order, may
// call back into the run, and never holds the lock.
func (r *run) publish() {
	if len(r.publishers) == 0 || r.publishing {
		r.mu.Unlock()
		return
	}
	r.publishing = true
	r.drain()
}

// publishOne is publish for where the newest record is at hand: mostly it is
// the only one that is new, and need not be unpacked.
func (r *run) publishOne(rec *core.Record) {
	n := r.history.len()
	if len(r.publishers) == 0 || r.publishing || r.published != n-1 || len(r.recovered) > 0 {
		r.publish()
		return
	}
	r.publishing = true
	r.published = n
	r.mu.Unlock()
	rec.RunID, rec.Seq = r.settings.RunID, uint64(n)
	for _, p := range r.publishers {
		r.tell(p, rec)
	}
	r.mu.Lock()
	r.drain()
}

// drain publishes until nothing is new, and unlocks.
func (r *run) drain() {
	for r.published < r.history.len() || len(r.recovered) > 0 {
		r.drainOne()
	}
	r.publishing = false
	if r.ending {
		r.quiet.Broadcast()
	}
	r.mu.Unlock()
}

func (r *run) drainOne() {
	var rec core.Record
	if len(r.recovered) > 0 {
		rec, r.recovered = r.recovered[0], r.recovered[1:]
		rec.RunID = r.settings.RunID
	} else {
		rec = r.history.at(r.published)
		r.published++
	}
	r.mu.Unlock()
	for _, p := range r.publishers {
		r.tell(p, &rec)
	}
	r.mu.Lock()
}

// tell keeps a publisher's panic from the call that the record is about. One
// that leaves its goroutine takes the call with it, but not the publishing.
func (r *run) tell(p Publisher, rec *core.Record) {
	returned := false
	defer func() {
		if returned {
			return
		}
		r.panics.Add(1)
		if recover() == nil { // runtime.Goexit
			r.mu.Lock()
			r.publishing = false
			r.quiet.Broadcast()
			r.mu.Unlock()
		}
	}()
	p.Publish(*rec)
	returned = true
}

// toPublish is what publishers are told of a call that was recalled: that it
// was, or the old records of it and of what is inside it.
func (r *run) toPublish(outcome *core.Record) []core.Record {
	if !r.republish {
		rec := *outcome
		rec.Status, rec.Seq, rec.Replayed = core.StatusRecovered, 0, true
		return []core.Record{rec}
	}
	var old []core.Record
	path := outcome.Address.String()
	for i := range int(outcome.Seq) {
		if rec := r.history.at(i); rec.Address == outcome.Address || isInside(rec.Address.Scope(), path) {
			rec.Replayed = true
			old = append(old, rec)
		}
	}
	return old
}

// load brings the output of a recalled call that is kept apart.
func (r *run) load(s *core.Scope, found *core.Recalled) *core.Recalled {
	d := found.Outcome.Detail
	if d == nil || d.Artifact == "" || len(d.Output) > 0 {
		return found
	}
	reader, ok := r.artifacts.(ArtifactReader)
	if !ok {
		return &core.Recalled{Refused: fmt.Errorf("state: %s: its output is artifact %s; open the run with the artifacts that have it (state.WithArtifacts)", found.Outcome.Address, d.Artifact)}
	}
	data, err := reader.Get(s, d.Artifact)
	if err != nil {
		return &core.Recalled{Refused: fmt.Errorf("state: %s: its output cannot be had: %w; put the artifact %s back, or fork the run before that call (state.Fork), so that it is made again",
			found.Outcome.Address, err, d.Artifact)}
	}
	loaded := *d
	loaded.Output = data
	found.Outcome.Detail = &loaded
	return found
}

// Keep implements core.Run.
func (r *run) Keep(ctx context.Context, encoded []byte) (string, error) {
	if r.strict { // nothing is written; the reference is what it would be
		return fmt.Sprintf("%x", sha256.Sum256(encoded)), nil
	}
	reference, err := r.artifacts.Put(ctx, encoded)
	if err != nil {
		return "", fmt.Errorf("state: artifact of %d bytes: %w", len(encoded), err)
	}
	return reference, nil
}

func (r *run) log(s *core.Scope, severity core.Severity, message string, metadata map[string]any) {
	rec := core.Record{
		Time: now(), Kind: core.KindLog, Status: core.StatusRecorded,
		Detail: &core.Detail{Severity: severity, Message: message, Metadata: maps.Clone(metadata)},
	}
	if s != nil {
		rec.Address = s.Address()
	}
	// A log line that comes too late has nobody to tell about it.
	_ = r.Append(s, &rec)
}

func (r *run) stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	return Stats{
		Records:         uint64(r.history.len()),
		Abandoned:       r.settings.Late.Abandoned.Load(),
		LateReturns:     r.settings.Late.Returned.Load(),
		PublisherPanics: r.panics.Load(),
	}
}
