package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/segment"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Compensable is an actor whose calls can be undone, or that itself makes calls that can be undone.
// It is an actors.Tool, LLM or Agent on which Compensate was called, or an Agent that was made with
// such actors.
type Compensable interface {
	Compensations() []*core.Compensation // empty if there are none
}

// WithCompensations sets the compensations that the run can make. A resumed run may have to undo
// calls that an earlier process made and that the program does not make again. Therefore, pass
// every actor with a compensation that a stored run calls: if one was not passed, the run is
// suspended at a call to it. Passing an agent also passes the compensations of the tools that it
// was made with, for example by actors.NewAgent. Runs begun by [New] end with the process and do
// not need WithCompensations.
//
// The option is invalid if an actor has no compensation, or if two actors of the same kind and name
// have different compensations.
func WithCompensations(actors ...Compensable) Option {
	return func(c *config) {
		for i, actor := range actors {
			if actor == nil || len(actor.Compensations()) == 0 {
				c.refuse(fmt.Errorf("state: WithCompensations: actor %d has no compensation; add one with its method Compensate", i+1))
				continue
			}
			for _, known := range actor.Compensations() {
				if kind, name := known.Actor(); c.hasOther(known) {
					c.refuse(fmt.Errorf("state: WithCompensations: there are two actors of kind %v named %q with different compensations; want one", kind, name))
				}
				c.settings.Compensations = append(c.settings.Compensations, known)
			}
		}
	}
}

// hasOther reports whether there is a different compensation for the same actor.
func (c *config) hasOther(known *core.Compensation) bool {
	kind, name := known.Actor()
	return slices.ContainsFunc(c.settings.Compensations, func(other *core.Compensation) bool {
		otherKind, otherName := other.Actor()
		return other != known && otherKind == kind && otherName == name
	})
}

// completed is [engine.Settings].Completed.
func (r *run) completed() []*engine.Completed {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.restored.completed()
	for i := range all {
		a, nth := all[i].Address, all[i].Nth
		all[i].Values = func(ctx context.Context) (in, out []byte, err error) { return r.valuesOf(ctx, a, nth) }
	}
	return all
}

// valuesOf returns the recorded input and output of the nth completion of a call.
func (r *run) valuesOf(ctx context.Context, a record.Address, nth int) (in, out []byte, err error) {
	c := r.restored.compensable[a][nth-1]
	began, err := r.restored.found.Record(c.began)
	if err != nil {
		return nil, nil, err
	}
	if c.inDoubt {
		if began.Detail == nil || len(began.Detail.Input) == 0 {
			return nil, nil, fmt.Errorf("%w: %s has a compensation, but its input was not recorded", snapshot.ErrCorrupt, a)
		}
		return began.Detail.Input, nil, nil
	}
	outcome, err := r.restored.found.Record(c.ended)
	if err != nil {
		return nil, nil, err
	}
	if d := outcome.Detail; d != nil && d.Artifact != "" && len(d.Output) == 0 {
		if out, err = r.readArtifact(ctx, a, d.Artifact); err != nil {
			return nil, nil, err
		}
	} else {
		out = outcome.Encoded()
	}
	if began.Detail == nil || len(began.Detail.Input) == 0 || len(out) == 0 {
		return nil, nil, fmt.Errorf("%w: %s has a compensation, but its input or output was not recorded", snapshot.ErrCorrupt, a)
	}
	return began.Detail.Input, out, nil
}

// A completion describes one completion of a call that can be compensated, or the possible effect
// of a call in doubt. A call's completions are numbered from 1, and a compensation has the number
// of the completion that it undoes.
type completion struct {
	began, ended uint64 // the records with the input and the output; for a call in doubt, ended is its latest start or its failure
	kind         record.Kind
	name         string
	inDoubt      bool
	open         bool // the call is in doubt, and has no outcome
	separate     bool // the call is in doubt, and its later attempts have separate effects
}

// followCompensable updates r.compensable with a record that was added to t. Calls can be
// compensated if they completed, or if they are in doubt now.
func (r *restoredRun) followCompensable(t *track, rec *record.Record) {
	if rec.Kind == record.KindCompensation {
		r.compensates = true
		r.followUndo(rec)
		return
	}
	compensable := rec.Detail != nil && rec.Detail.Compensable
	if !compensable && r.compensable == nil {
		return
	}
	all := r.compensable[rec.Address]
	last := len(all) - 1
	goesOn := last >= 0 && all[last].inDoubt && !all[last].separate
	switch {
	case compensable && (rec.IsOutcome() || rec.Status == record.StatusStarted):
		if goesOn {
			all = all[:last]
		}
		completed := rec.Status == record.StatusCompleted
		all = append(all, completion{
			began: t.first, ended: rec.Seq, kind: rec.Kind, name: rec.Name,
			inDoubt: !completed, open: !rec.IsOutcome(),
		})
	case goesOn && (!t.InDoubt() || rec.Status == record.StatusStarted):
		all = all[:last]
	default:
		return
	}
	if r.compensable == nil {
		r.compensable, r.undone = make(map[record.Address][]completion), make(map[record.Address]bool)
	}
	if r.compensable[rec.Address] = all; len(all) == 0 {
		delete(r.compensable, rec.Address)
	}
}

// followUndo processes a record of a compensation.
func (r *restoredRun) followUndo(rec *record.Record) {
	if r.compensable == nil {
		return
	}
	if rec.Status == record.StatusCompleted {
		r.undone[rec.Address] = true
	}
	undone, err := record.ParseAddress(callOf(rec.Address.Scope()))
	if nth := callsite.Call(rec.Address).Nth(); err == nil && nth == len(r.compensable[undone]) {
		r.keepDoubt(undone)
	}
}

// keepDoubt is called when a call in doubt is compensated, or begins again with another input. It
// keeps the call's possible effect separate from anything that the call does afterwards.
func (r *restoredRun) keepDoubt(a record.Address) {
	if all := r.compensable[a]; len(all) > 0 && all[len(all)-1].inDoubt {
		all[len(all)-1].separate = true
	}
}

// startOver lets a call begin again after it was in doubt and has been compensated. The call's
// earlier attempts no longer put it in doubt, unless the compensation failed.
func (r *restoredRun) startOver(t *track, rec *record.Record) {
	all := r.compensable[rec.Address]
	n := len(all)
	if n == 0 || !all[n-1].separate || !t.isSameDoubt(all[n-1]) || r.compensationFailed(rec.Address, all[n-1].name, n) {
		return
	}
	if t.CutOff = false; t.InDoubt() {
		t.Phase = record.StateWaiting
	}
	t.First = int32(rec.Attempt)
}

// isSameDoubt reports whether c describes the call's current doubt. This is the case unless the
// call has begun again after c.
func (t *track) isSameDoubt(c completion) bool { return c.inDoubt && t.entered <= c.ended }

// completed returns the calls that can be compensated, in the order in which they completed or came
// into doubt. A call that was made several times appears once for the last time that it completed or
// came into doubt, and once for each earlier time that was not compensated before the call was made
// again.
func (r *restoredRun) completed() []*engine.Completed {
	var all []*engine.Completed
	for a, completions := range r.compensable {
		for i, c := range completions {
			nth, found := i+1, r.compensation(a, c.name, i+1)
			t := r.calls[a]
			isLast := nth == len(completions) && t != nil && (t.Phase == record.StateCompleted || t.isSameDoubt(c))
			if !isLast && r.undone[undoAddress(a, c.name, nth)] {
				continue
			}
			done := &engine.Completed{Address: a, Kind: c.kind, Name: c.name, InDoubt: c.inDoubt, Nth: nth, Found: found, By: r.failedAround(a)}
			all = append(all, done)
		}
	}
	slices.SortFunc(all, func(x, y *engine.Completed) int {
		return cmp.Compare(r.compensable[x.Address][x.Nth-1].ended, r.compensable[y.Address][y.Nth-1].ended)
	})
	return all
}

func undoAddress(a record.Address, name string, nth int) record.Address {
	return record.Address(callsite.Of(a.Path(callsite.CompensationAttempt), segment.Of(name)).Call(nth))
}

// compensation returns the recorded state of a completion's compensation, or nil.
func (r *restoredRun) compensation(a record.Address, name string, nth int) *record.Progress {
	return r.progress(undoAddress(a, name, nth))
}

// mayBeUndone reports whether the compensation of a completion has completed, or has begun but not
// ended. A compensation that failed has undone nothing, even if it is to be tried again.
func (r *restoredRun) mayBeUndone(a record.Address, name string, nth int) bool {
	t := r.calls[undoAddress(a, name, nth)]
	return t != nil && t.Last > 0 && t.Phase != record.StateFailed
}

// compensationFailed reports whether a completion's compensation failed for good and has not begun
// again.
func (r *restoredRun) compensationFailed(a record.Address, name string, nth int) bool {
	t := r.calls[undoAddress(a, name, nth)]
	return t != nil && t.Phase == record.StateFailed
}

// isUndoing reports whether a call has failed for good and one of the compensations that it causes
// has begun but not ended. It is then not known whether the compensated call still has its effect.
func (r *restoredRun) isUndoing() bool {
	return slices.ContainsFunc(r.completed(), func(c *engine.Completed) bool {
		return !c.By.IsZero() && c.Found != nil && !c.Found.HasOutcome()
	})
}

// failedAround returns the innermost call around a that failed for good and therefore causes the
// compensation of a. If there is none, it returns the zero Address. A failed call that is tried
// again does not count as failed.
func (r *restoredRun) failedAround(a record.Address) record.Address {
	for scope := a.Scope(); scope != ""; scope = outerScope(scope) {
		around, err := record.ParseAddress(callOf(scope))
		if err != nil {
			continue
		}
		t := r.calls[around]
		if t == nil || t.Phase != record.StateFailed || r.isRetried(t, around) {
			continue
		}
		if !t.kind.IsParallel() || around.Scope() == "" {
			return around
		}
	}
	return record.Address{}
}

// progressAfterUndo returns p, the progress of the call at a, unless that call or a call inside it
// was compensated afterwards. A compensated call is made again if the surrounding calls are tried
// again; progressAfterUndo then returns the progress from which it continues. r.mu must be held.
func (r *run) progressAfterUndo(a record.Address, p *record.Progress) *record.Progress {
	if p == nil || len(r.restored.compensable) == 0 || r.settings.Replays {
		return p
	}
	t, again := r.restored.calls[a], *p
	switch {
	case p.Phase == record.StateFailed:
		return p
	case p.Phase != record.StateCompleted:
		all := r.restored.compensable[a]
		if len(all) == 0 || !t.isSameDoubt(all[len(all)-1]) || !r.restored.isCompensated(a) {
			return p
		}
		again.Attempt, again.CutOff = r.restored.attemptAfterUndo(a, t), false // and the call is no longer in doubt
	case r.restored.isCompensated(a):
		again.Attempt = r.restored.attemptAfterUndo(a, t)
	case !r.restored.containsCompensated(a):
		return p
	}
	again.Phase, again.Spent, again.Delay, again.Err = record.StateWaiting, 0, 0, nil
	again.First = again.Attempt
	return &again
}

// attemptAfterUndo returns the attempt in which a compensated call is made again. If the call made
// other calls, the attempt is a new one, so that those calls are made again, too: their effects
// were undone with the call.
func (r *restoredRun) attemptAfterUndo(a record.Address, t *track) int32 {
	if t.kind.IsEntered() {
		return t.attempts
	}
	for attempt := range t.attempts {
		if r.inside[scopePath(a, int(attempt))] > 0 {
			return t.attempts
		}
	}
	return 0
}

// isCompensated reports whether the call's last completion or doubt was compensated. If the
// compensation failed, the call still has its effect.
func (r *restoredRun) isCompensated(a record.Address) bool {
	if e := r.effects.latest[a]; e != nil {
		for e.took != nil { // the compensation belongs to the effect that the call took over
			e = e.took
		}
		if a = e.Address; e.RunID != "" {
			return false
		}
	}
	completions := r.compensable[a]
	n := len(completions)
	return n > 0 && r.undone[undoAddress(a, completions[n-1].name, n)]
}

// containsCompensated reports whether a call inside a was compensated because of the failure of a
// call around a. Compensations caused by the failure of a call inside a are ignored, because that
// inner call already has an outcome.
func (r *restoredRun) containsCompensated(a record.Address) bool {
	if r.hollow == nil {
		r.hollow = make(map[record.Address]bool)
		for inner := range r.compensable {
			if r.isCompensated(inner) {
				r.markHollow(inner)
			}
		}
	}
	return r.hollow[a]
}

// markHollow marks the calls around a, up to the call whose failure caused the compensation.
func (r *restoredRun) markHollow(a record.Address) {
	for scope := a.Scope(); scope != ""; scope = outerScope(scope) {
		around, err := record.ParseAddress(callOf(scope))
		if err != nil {
			return
		}
		if t := r.calls[around]; t != nil && t.Phase == record.StateFailed && !t.kind.IsParallel() {
			return
		}
		r.hollow[around] = true
	}
}

// An uncompensatedError is returned if a cancel is pending but calls of the run must be compensated
// first.
type uncompensatedError struct{ cancel snapshot.Stop }

func (*uncompensatedError) Error() string {
	return "it is cancelled, but still has calls to compensate"
}

// isCompensated reports whether no call of a run remains to be compensated: each call that
// completed or is in doubt was compensated, could not be compensated, or has no compensation.
func isCompensated(found *snapshot.Run) (bool, error) {
	r, err := newRestoredRun(found)
	if err != nil {
		return false, err
	}
	r.retryTo = max(r.retryTo, found.RetryTo)
	for _, c := range r.completed() {
		if c.Found == nil || !c.Found.HasOutcome() {
			return false, nil
		}
	}
	return true, nil
}

// errLeft is the interrupt of a cancelled run until its compensations return. It is reported if calls
// are left uncompensated because a compensation ended its goroutine.
var errLeft = &core.InterruptedError{
	Reason: record.InterruptClosed, Cause: errors.New("a compensation ended its goroutine without returning (runtime.Goexit)"),
}

// leavesToNext reports whether e means that this process has to leave the run to the next process
// that opens it. Such an interrupt also stops the compensations of a cancelled run, but the cancel
// remains in effect. A run in memory is never left to another process.
func (r *run) leavesToNext(e *core.InterruptedError) bool {
	switch e.Reason {
	case record.InterruptShutdown, record.InterruptStore, record.InterruptLeaseLost:
		return r.keeper.isStored()
	}
	return false
}

// beginUndoing creates the context for the compensations of a cancelled run, and returns the
// function that ends it. r.mu must be held.
func (r *run) beginUndoing() context.CancelCauseFunc {
	u := &r.life.undoing
	u.ctx, u.cancel = context.WithCancelCause(context.Background())
	if u.stopped != nil {
		u.cancel(u.stopped)
	}
	r.life.uncompensated = errLeft
	return u.cancel
}

// stopCompensating stops the compensations of a cancelled run because of e, and reports whether it
// did so. It does so only if the run was cancelled, has calls that may have to be compensated, and
// has neither ended nor been stopped in this way before.
func (r *run) stopCompensating(e *core.InterruptedError) bool {
	r.mu.Lock()
	u := &r.life.undoing
	if !r.isCancelled() || !r.root.MayCompensate() || r.life.closed || u.stopped != nil {
		r.mu.Unlock()
		return false
	}
	u.stopped = e
	cancel := u.cancel
	r.mu.Unlock()
	if cancel != nil {
		cancel(e)
	}
	return true
}

// compensate compensates the completed calls of a cancelled run. The cancel is
// made durable first: if the process ends meanwhile, the next opening
// compensates the rest.
func (r *run) compensate() {
	r.mu.Lock()
	e, ctx := r.life.interrupted, r.life.undoing.ctx
	cancelled := r.isCancelled()
	r.mu.Unlock()
	if !cancelled {
		return
	}
	var failed []core.FailedCompensation
	var left *core.InterruptedError
	if r.root.MayCompensate() {
		failed, left = r.compensateCancelled(ctx, e)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.life.closed { // otherwise awaitEnd did not wait for this
		r.life.failedUndos, r.life.uncompensated = failed, left
	}
}

// compensateCancelled makes the cancel e durable, and then makes the compensations. It stops if ctx
// ends, or if the process loses the run.
func (r *run) compensateCancelled(ctx context.Context, e *core.InterruptedError) ([]core.FailedCompensation, *core.InterruptedError) {
	if k, ok := r.keeper.(*storeKeeper); ok {
		if err := k.postCancel(e); err != nil {
			return nil, &core.InterruptedError{Reason: record.InterruptStore, Cause: err}
		}
		defer r.watchLease(k)() // the inbox, which watched it until now, is closed
	}
	return r.root.Compensate(ctx)
}

// endCancelled compensates the completed calls of a run that was opened after it
// was cancelled, and closes the run. It returns the *[CancelledError], joined
// with any other error, such as a *[core.CompensationError]. If ctx ends, the compensations stop.
func (r *run) endCancelled(ctx context.Context) error {
	defer context.AfterFunc(ctx, func() {
		r.stopCompensating(&core.InterruptedError{Reason: record.InterruptContext, Cause: context.Cause(ctx)})
	})()
	err := r.close()
	cancelled := engine.WithUncompensated(cancelledError(r.settings.RunID, stopOf(r.life.interrupted)), r.life.failedUndos)
	switch {
	case r.life.uncompensated != nil:
		return fmt.Errorf("%w, but not all of its calls are compensated yet: %w", cancelled, r.life.uncompensated)
	case err != nil:
		return errors.Join(cancelled, err)
	}
	return cancelled
}
