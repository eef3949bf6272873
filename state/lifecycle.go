package state

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// lifecycle holds the state that determines how a run ends. It is guarded by the run's lock.
type lifecycle struct {
	contexts      map[int]context.CancelCauseFunc // they cancel the run's contexts, by number
	nextContext   int
	timeout       *time.Timer
	interrupted   *core.InterruptedError
	ending        bool // Close has begun
	closed        bool // only the run's last record, and warnings before it, can still be added
	ended         sync.Once
	done          chan struct{}
	closeErr      error
	undoing       undoing
	uncompensated *core.InterruptedError    // why a cancelled run could not compensate all its calls; nil if it did
	failedUndos   []core.FailedCompensation // a cancelled run's compensations that failed for good
}

// undoing controls the compensations of a cancelled run.
type undoing struct {
	ctx     context.Context         // context of the compensations; nil until a cancelled run is closed
	cancel  context.CancelCauseFunc // ends ctx
	stopped *core.InterruptedError  // why no further compensations are made now; nil if they may be made
}

// rootCalls tracks a run's root calls, on which the run's status depends.
type rootCalls struct {
	made      bool           // a root call was made or recalled
	begun     bool           // a root call was made in this opening, not only recalled
	suspended int            // root calls that stopped without an outcome
	awaiting  int            // root calls that wait for an answer
	failure   *record.Record // the failure of the root call that ended last; nil if it did not fail

	stopped *core.InterruptedError // the interrupt of the last root call that stopped without an outcome; nil if none did
}

// isRootCall reports whether s is an attempt of a root call.
func isRootCall(s *engine.Scope) bool {
	around := s.Parent()
	return around != nil && around.Parent() == nil
}

// follow updates the root calls with a call's record, which comes from the attempt s.
func (c *rootCalls) follow(s *engine.Scope, rec *record.Record) {
	if rec.Kind == record.KindCompensation && rec.IsSuspension() && s.Spec() != nil {
		c.stopUndoing(rec)
	}
	if !isRootCall(s) {
		return
	}
	c.begun = true
	if rec.WillRetry {
		return
	}
	c.made = true
	if rec.IsOutcome() || rec.IsSuspension() {
		c.noteOutcome(s, rec)
	}
}

// stopUndoing records that a compensation was suspended. The compensation may belong to a failed
// root call, which then already has an outcome, but still continues when the run is resumed.
func (c *rootCalls) stopUndoing(rec *record.Record) {
	if rec.Status == record.StatusAwaiting {
		c.awaiting++
		return
	}
	c.suspended++
	c.stopped = rec.Interrupt()
}

// noteOutcome records how the call of attempt s ended, whether the call ran or was recalled.
func (c *rootCalls) noteOutcome(s *engine.Scope, rec *record.Record) {
	if !isRootCall(s) {
		return
	}
	c.made = true
	switch e := rec.Interrupt(); {
	case rec.Status == record.StatusAwaiting:
		c.awaiting++
	case e != nil && e.Origin == nil:
		c.suspended++
		c.stopped = e
	}
	c.failure = nil
	if rec.Status == record.StatusFailed {
		failure := *rec
		c.failure = &failure
	}
}

// status returns the status of the run. r.mu must be held.
func (r *run) status() snapshot.Status {
	switch {
	case !r.life.closed:
		return snapshot.StatusRunning
	case r.isCancelled() && r.life.uncompensated == nil:
		return snapshot.StatusCancelled
	case r.isCancelled() && r.life.uncompensated.Reason == record.InterruptAwait:
		return snapshot.StatusPaused
	case r.hasEnded():
		return r.found.Status // a run's outcome is final, even if a replay of the run was stopped
	case r.life.interrupted != nil || r.rootCalls.suspended > 0 || r.root.Refused() != nil || r.root.Active() > 0:
		return snapshot.StatusInterrupted
	case !r.rootCalls.made && r.found.Status != "":
		return r.found.Status // nothing has changed it
	case r.rootCalls.awaiting > 0:
		return snapshot.StatusPaused
	case r.rootCalls.failure != nil:
		return snapshot.StatusFailed
	case !r.rootCalls.made:
		return snapshot.StatusInterrupted
	}
	return snapshot.StatusCompleted
}

// stopOf converts an interrupt to the Stop of the run that it stopped. The interrupt may be nil.
func stopOf(e *record.InterruptedError) snapshot.Stop {
	if e == nil {
		return snapshot.Stop{}
	}
	stop := snapshot.Stop{Reason: e.Reason, By: e.By, Message: e.Message}
	if d := (*core.DivergenceError)(nil); errors.As(e.Cause, &d) {
		stop.Message = d.Difference()
	}
	return stop
}

// interruption returns the interrupt that stopped the run or, if there is none, the interrupt of
// the last root call that was suspended. If nothing was stopped in this opening, it returns the
// interrupt that stopped the run earlier. It returns nil if nothing has stopped the run. r.mu must
// be held.
func (r *run) interruption() *core.InterruptedError {
	switch {
	case r.life.uncompensated != nil && r.life.uncompensated.Reason != record.InterruptAwait:
		return r.life.uncompensated
	case r.life.interrupted != nil:
		return r.life.interrupted
	case r.rootCalls.suspended > 0:
		return r.rootCalls.stopped
	case r.root.Refused() != nil:
		return r.root.Refused()
	case r.root.Active() > 0:
		return errClosing
	case r.found.Stop != snapshot.Stop{}:
		return &core.InterruptedError{Reason: r.found.Stop.Reason, By: r.found.Stop.By, Message: r.found.Stop.Message}
	case !r.rootCalls.made:
		return errNothingCalled
	}
	return nil
}

// isCancelled reports whether the run was cancelled. r.mu must be held.
func (r *run) isCancelled() bool {
	return r.life.interrupted != nil && r.life.interrupted.Reason == record.InterruptCancel
}

// context returns a context for the run, derived from ctx.
func (r *run) context(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.life.interrupted != nil:
		cancel(r.life.interrupted)
	case r.life.ending:
		cancel(errClosing)
	default:
		id := r.life.nextContext
		r.life.nextContext++
		r.life.contexts[id] = cancel
		// This way, a long run does not keep contexts that have ended.
		context.AfterFunc(ctx, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			delete(r.life.contexts, id)
		})
	}
	return r.root.Context(ctx)
}

// errClosing is the cause that Close gives when it cancels contexts.
var errClosing = &core.InterruptedError{Reason: record.InterruptClosed, Cause: ErrClosed}

// errNothingCalled is the interrupt of a run in which no call was made.
var errNothingCalled = &core.InterruptedError{Reason: record.InterruptClosed, Message: "before a call was made with its context"}

// interrupt cancels all of the run's contexts with the cause e. Only the first interrupt, the first
// cancel, and the first interrupt that stops a cancelled run's compensations take effect. The
// result reports whether e took effect.
func (r *run) interrupt(e *core.InterruptedError) bool {
	if e.Reason == record.InterruptCancel && e.Cause == nil {
		cancelled := *e
		cancelled.Cause = &cancelCause{CancelledError{RunID: r.settings.RunID, By: e.By, Message: e.Message}}
		e = &cancelled
	}
	r.mu.Lock()
	isCancel := e.Reason == record.InterruptCancel
	if r.life.ending || r.isCancelled() || r.life.interrupted != nil && !isCancel || isCancel && r.hasEnded() { // an outcome is final
		r.mu.Unlock()
		return r.leavesToNext(e) && r.stopCompensating(e)
	}
	if before := r.life.interrupted; before != nil && r.leavesToNext(before) {
		r.life.undoing.stopped = before
	}
	r.life.interrupted = e
	r.root.Interrupt(e)
	cancels := r.takeContexts()
	r.mu.Unlock()
	for _, cancel := range cancels {
		cancel(e)
	}
	return true
}

// takeContexts removes and returns the functions that cancel the contexts. r.mu must be held during
// this call, but not when those functions are called.
func (r *run) takeContexts() []context.CancelCauseFunc {
	cancels := make([]context.CancelCauseFunc, 0, len(r.life.contexts))
	for id, cancel := range r.life.contexts {
		cancels = append(cancels, cancel)
		delete(r.life.contexts, id)
	}
	return cancels
}

func (r *run) setTimeout(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("state: SetTimeout(%v): want more than 0; CancelTimeout removes a timeout", d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.ending {
		return ErrClosed
	}
	if r.life.timeout != nil {
		r.life.timeout.Stop()
	}
	message := fmt.Sprintf("the run's time limit of %v has passed", d)
	var timer *time.Timer
	timer = time.AfterFunc(d, func() {
		r.mu.Lock()
		current := r.life.timeout == timer // the timer may have been replaced while it fired
		r.mu.Unlock()
		if current {
			r.interrupt(&core.InterruptedError{Reason: record.InterruptTimeout, Message: message})
		}
	})
	r.life.timeout = timer
	return nil
}

func (r *run) cancelTimeout() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.life.timeout == nil {
		return false
	}
	stopped := r.life.timeout.Stop()
	r.life.timeout = nil
	return stopped
}

// closeGrace is how long Close waits for running calls.
const closeGrace = 100 * time.Millisecond

func (r *run) close() (err error) {
	r.mu.Lock()
	if r.life.timeout != nil {
		r.life.timeout.Stop()
		r.life.timeout = nil
	}
	if r.life.ending {
		r.mu.Unlock()
		r.awaitEnd()
		return r.life.closeErr
	}
	r.life.ending = true
	if r.isCancelled() {
		defer r.beginUndoing()(nil)
	}
	r.root.Interrupt(errClosing)
	cancels := r.takeContexts()
	r.mu.Unlock()
	defer func() { // runs even if user code, such as a compensation, ends the goroutine
		r.end()
		err = r.life.closeErr
	}()
	for _, cancel := range cancels {
		cancel(errClosing)
	}
	r.inbox.close()
	r.awaitCalls()
	r.compensate()
	return nil
}

// awaitEnd waits until the run has ended. If the run's compensations were stopped and one of them
// ignores its context, awaitEnd ends the run without waiting for that compensation.
func (r *run) awaitEnd() {
	r.mu.Lock()
	ctx := r.life.undoing.ctx
	r.mu.Unlock()
	if ctx == nil {
		<-r.life.done
		return
	}
	select {
	case <-r.life.done:
		return
	case <-ctx.Done():
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-r.life.done:
	case <-timer.C:
		r.end()
		<-r.life.done
	}
}

// end records how the run ended and closes the run's keeper, once. The error that stopped the run
// may have a user-defined type. Therefore end does its work even if one of the error's methods
// panics or ends the goroutine.
func (r *run) end() { r.life.ended.Do(r.endOnce) }

func (r *run) endOnce() {
	r.mu.Lock()
	if r.life.uncompensated == errLeft && r.life.undoing.stopped != nil {
		r.life.uncompensated = r.life.undoing.stopped
	}
	r.life.closed = true
	end := snapshot.End{Status: r.status()}
	var e, stopped *core.InterruptedError
	if end.Status == snapshot.StatusInterrupted || end.Status == snapshot.StatusCancelled || r.isCancelled() {
		e = r.interruption()
	}
	r.mu.Unlock()
	if e != nil {
		withoutCause := *e
		withoutCause.Cause = nil
		stopped, end.Stop = &withoutCause, stopOf(&withoutCause)
	}
	defer func() { r.recordEnd(end, stopped) }()
	end.Stop = stopOf(e)
	if r.keeper.isStored() {
		e = e.Recorded()
	}
	stopped = e
}

// recordEnd records the end of the run, with the interrupt if there was one, and closes the keeper.
func (r *run) recordEnd(end snapshot.End, stopped *core.InterruptedError) {
	r.mu.Lock()
	r.warnInherited()
	last := r.lastRecord(end.Status, stopped)
	if r.keeper.isStored() && last.Err != nil && last.Interrupt() == nil {
		last.Err = record.ErrorOf(last.Err) // the wrapped error is already in recorded form
	}
	r.keep(&last)
	if r.keeper.isStored() {
		end.Usage, end.Summary = r.ledger.Counts().Usage, snapshot.SummaryOf(&r.ledger)
		if end.Stop.Reason == record.InterruptCancel {
			dropMoot(&end.Summary, &r.ledger)
		}
	}
	if end.Status != r.found.Status {
		r.keeper.release()
	}
	err := r.write()
	if end.Status == snapshot.StatusPaused {
		end.Due = r.due()
	}
	defer func() { // runs even if a publisher or a redaction ends the goroutine
		r.mu.Lock()
		r.awaitPublished()
		r.mu.Unlock()
		r.life.closeErr = errors.Join(err, r.keeper.close(end))
		close(r.life.done)
	}()
	r.publishAndUnlock()
}

// awaitCalls waits briefly for every root call to end. The wait is short because a handler that
// ignores its context must not delay Close.
func (r *run) awaitCalls() {
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-r.root.Idle():
	case <-timer.C:
	}
}

// explain sets the error of rec, the last record of a failed run.
func (c *rootCalls) explain(rec *record.Record) {
	f := c.failure
	if f == nil || f.Err == nil {
		return // nothing was called; the run had already failed
	}
	rec.Reason, rec.Class = f.Reason, f.Class
	rec.Err = &core.CallError{
		Address: f.Address, Name: f.Name, Stage: f.Stage, Attempts: f.TotalAttempts(), Reason: f.Reason, Err: f.Err,
	}
}

// lastRecord returns the record that reports how the run ended, including the interrupt if there
// was one.
func (r *run) lastRecord(status snapshot.Status, stopped *core.InterruptedError) record.Record {
	rec := record.Record{
		Time: now(), Kind: record.KindRun, Name: r.config.metadata.Pipeline, Status: record.StatusCompleted,
		Elapsed: time.Since(r.began),
	}
	switch status {
	case snapshot.StatusFailed:
		rec.Status = record.StatusFailed
		r.rootCalls.explain(&rec)
	case snapshot.StatusPaused:
		rec.Status = record.StatusAwaiting
	case snapshot.StatusInterrupted:
		rec.Status = record.StatusInterrupted
		if stopped != nil {
			rec.Err = stopped
		}
	case snapshot.StatusCancelled:
		rec.Status, rec.Err = record.StatusCancelled, stopped
	}
	return rec
}
