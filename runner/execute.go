package runner

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// An openRun is a run that this process has open, or is opening. Runner.mu
// guards it.
type openRun struct {
	runID      string
	program    *program
	caller     caller.Caller // the run that called this run; zero if there is none
	generation uint64
	opened     chan struct{}         // closed when st has been set or will certainly not be set
	st         *state.ExecutionState // nil until opened is closed
	newAnswer  bool                  // an answer has arrived that the run may not have read
	stopped    error                 // why the run cannot continue as it is; nil if the run can continue, or has ended
	returned   error                 // the error that its program returned, or nil if it returned none
	openLater  bool                  // the run could not be opened, but the reason may be temporary
	isBlocked  bool                  // the run is a suspect, and its turn has not come
	cancelled  bool                  // the opening compensated and ended a run that was already cancelled

	compensating *state.ExecutionState // if cancelled: the run in which calls were compensated; nil if none had to be
}

// execute executes a run until it ends, stops or is parked.
func (r *Runner) execute(ctx context.Context, o *openRun, lease Lease) {
	began := time.Now()
	defer func() { r.finish(ctx, o, lease, time.Since(began)) }() // deferred, since a handler may call runtime.Goexit
	if e := lease.Entry(); !e.Fresh {
		if continues, err := r.inspect(ctx, o); err != nil {
			r.refuse(ctx, o, err)
			return
		} else if !continues {
			return
		}
	}
	st, input, err := r.openState(ctx, o, lease.Entry().Fresh)
	if errors.Is(err, state.ErrCancelled) { // openState checks that the run has not ended, so this opening ended it
		r.noticeCancelled(o, nil)
		o.stopped = err
		return
	} else if err != nil {
		r.refuse(ctx, o, err)
		return
	}
	defer func() {
		if err := st.Close(); err != nil {
			r.observe(o.notice(NoticeTrouble, st.Status(), err))
		}
		if st.Status() == snapshot.StatusQueued { // the run must not be queued now: it would be opened again and again
			r.refuse(ctx, o, errors.Join(errNoCall, err))
		}
	}()
	r.setState(o, st)
	call, err := o.program.decode(input)
	if err != nil { // the input was stored by different code
		st.Interrupt(snapshot.Stop{Reason: record.InterruptDiverge, Message: strings.TrimPrefix(err.Error(), "runner: ")})
		o.stopped = err
		return
	}
	callCtx := st.Context(ctx)
	if r.options.Context != nil {
		callCtx = r.options.Context(callCtx)
	}
	defer func() { r.tellCaller(ctx, o, st, err) }() // before st.Close, even if a handler calls runtime.Goexit
	err = call(context.WithValue(callCtx, runnerKey{}, r))
	o.stopped, o.returned = stopOf(err), err
}

// stopOf returns err if the call stopped because its run cannot continue in its current state: the
// code differs from the records, or the store fails. It returns nil for any other error, since the
// run's records contain that error.
func stopOf(err error) error {
	var stopped *core.InterruptedError
	if !core.IsSuspension(err) || !errors.As(err, &stopped) { // methods of a failed call's error may panic
		return nil
	}
	switch stopped.Reason {
	case record.InterruptDiverge, record.InterruptReplay, record.InterruptStore, record.InterruptLeaseLost:
		return err
	}
	return nil
}

// errNoCall is reported for a run that was opened but made no call.
var errNoCall = errors.New("its program made no call: the actor must be an agent or a tool of package actors")

// errNotDue is returned for a run that must not continue, because it has changed since it was
// queued here.
var errNotDue = errors.New("the run does not continue by itself")

// openState opens the run, and returns the input of the program. fresh means that the entry in the
// queue is for a run that has not begun.
func (r *Runner) openState(ctx context.Context, o *openRun, fresh bool) (*state.ExecutionState, []byte, error) {
	check := func(found snapshot.Info) error {
		switch {
		case !canContinue(&found), fresh && found.Status != snapshot.StatusQueued:
			return errNotDue
		case programKey{found.Program, found.Version} != o.program.programKey:
			return errNotDue // the queue has an entry for a deleted run with the same ID; see finish
		}
		return nil
	}
	var input []byte
	readInput := func(found *snapshot.Run) (err error) {
		o.caller, _ = caller.Of(&found.Metadata)
		o.generation = found.Generation
		input, err = inputOf(found)
		return err
	}
	options := slices.Concat(r.options.Run, []state.Option{
		// RootsAtClose is set because the result is used only after Close.
		state.WithHost(state.Host{
			Owner: r.owner, Check: check, Existing: readInput, Compensating: func(st *state.ExecutionState) { r.noticeCancelled(o, st) }, RootsAtClose: true,
		}),
		state.WithMaxLosses(core.Unlimited), // the limit is MaxRestarts
		state.WithCompensations(o.program.compensable...),
	})
	if r.isCurrentSuspect(o) {
		options = append(options, r.untilOutcome(ctx, o))
	}
	if r.options.ParkAfter > 0 {
		options = append(options, state.WithParking(r.options.ParkAfter))
	}
	st, err := state.Open(ctx, r.store, o.runID, options...)
	return st, input, err
}

// isCurrentSuspect reports whether the run is the suspect whose turn it is.
func (r *Runner) isCurrentSuspect(o *openRun) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.suspects.current == o
}

// setState sets the state of a run that was opened. If all runs have been interrupted in the
// meantime, setState interrupts this run too.
func (r *Runner) setState(o *openRun, st *state.ExecutionState) {
	r.mu.Lock()
	o.st = st
	late := r.stopped
	close(o.opened)
	r.mu.Unlock()
	if late {
		st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown})
	}
	notice := o.notice(NoticeOpened, snapshot.StatusRunning, nil)
	notice.Resumed = o.generation > 1
	r.observe(notice)
}

// noticeCancelled reports, once, that a run that was cancelled while it was not open has been opened
// to compensate its calls. Until they are compensated, the run is controlled through the store.
// st is nil if no call must be compensated.
func (r *Runner) noticeCancelled(o *openRun, st *state.ExecutionState) {
	if o.cancelled {
		return
	}
	r.mu.Lock()
	o.cancelled, o.compensating = true, st
	late := r.stopped
	close(o.opened)
	r.mu.Unlock()
	if late && st != nil {
		st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown})
	}
	r.observe(o.notice(NoticeOpened, snapshot.StatusRunning, nil))
}

// refuse handles a run that cannot continue. If the run is open elsewhere, was deleted, or has ended,
// refuse does nothing; any other error is reported. The run is not opened again until it changes,
// unless the store could not be reached.
func (r *Runner) refuse(ctx context.Context, o *openRun, err error) {
	for _, fine := range []error{errNotDue, snapshot.ErrLocked, snapshot.ErrNotFound} {
		if errors.Is(err, fine) {
			return
		}
	}
	info, infoErr := r.store.Info(ctx, o.runID)
	r.mu.Lock()
	switch {
	case snapshot.IsTemporary(err):
		o.openLater = true
	case infoErr == nil:
		r.refused[o.runID] = refusalOf(&info)
	default:
		r.refused[o.runID] = refusal{}
	}
	r.mu.Unlock()
	r.observe(o.notice(NoticeTrouble, info.Status, err))
}

// finish puts the run back into the queue if the run continues by itself.
func (r *Runner) finish(ctx context.Context, o *openRun, lease Lease, took time.Duration) {
	info, err := r.store.Info(ctx, o.runID)
	answered := err == nil && info.Status == snapshot.StatusPaused && r.hasAnswer(ctx, &info)
	ran := o.st != nil
	if ran {
		r.noteOutage(o, &info, err)
	}
	switch {
	case err != nil || !ran || info.Open || !canContinue(&info) || info.Stop.Reason == record.InterruptCrash:
	case info.Stop.Reason == record.InterruptStore:
		info = r.countUnstored(ctx, o, info)
	case info.Restarts > 0:
		info = r.resetRestarts(ctx, info)
	}
	if err == nil && isRefusedRun(&info) && ran {
		info = r.noteRefusal(ctx, info)
	}
	var report state.Report
	if st := cmp.Or(o.st, o.compensating); st != nil {
		report = st.Report()
	}
	r.mu.Lock()
	delete(r.open, o.runID)
	r.closed.add(report)
	if !ran && !o.cancelled {
		close(o.opened)
	}
	answered = answered || o.newAnswer
	refused, later, isBlocked := r.isRefused(&info), o.openLater, o.isBlocked
	r.announce(o.runID, info)
	r.mu.Unlock()
	r.endLease(ctx, lease, func() error {
		switch due, continues := continuesAt(&info, answered, time.Now()); {
		case errors.Is(err, snapshot.ErrNotFound), err == nil && (!continues && !info.Open || refused):
			return lease.Done(ctx)
		case err == nil && entryOf(&info).Program != lease.Entry().Program:
			if err := lease.Done(ctx); err != nil {
				return err
			}
			r.consider(ctx, &info, answered, false)
			return nil
		case err != nil:
			lease.Abandon()
			return nil
		case isBlocked:
			return lease.Park(ctx, r.queueTime(ctx, time.Now().Add(suspectsWait)))
		case info.Open, later, info.Status == snapshot.StatusInterrupted && info.Due.IsZero() && !r.isStopping():
			return lease.Park(ctx, r.queueTime(ctx, time.Now().Add(offerAgainAfter)))
		default:
			return lease.Park(ctx, r.queueTime(ctx, due))
		}
	})
	if isBlocked {
		r.addWaiting(ctx, lease.Entry())
	}
	r.endTurn(ctx, o)
	if ran || o.cancelled {
		notice := o.notice(NoticeClosed, info.Status, nil)
		switch {
		case err != nil && ran:
			notice.Status, notice.Err = o.st.Status(), err // the latest status known to this process
		case err != nil:
			notice.Err = err
		case info.Status == snapshot.StatusInterrupted:
			notice.Err = o.stopped
		case info.Status == snapshot.StatusFailed:
			notice.Err = o.returned
		}
		notice.Took, notice.Due, notice.Stop = took, info.Due, info.Stop
		r.observe(notice)
	}
	// For a run that was cancelled, failures are reported only at its end, since each earlier
	// opening may find them, too.
	hasFailures, isCancelled := o.cancelled || report.Uncompensated > 0, info.Stop.Reason == record.InterruptCancel
	if hasFailures && (!isCancelled || info.Status == snapshot.StatusCancelled) {
		r.reportUncompensated(ctx, o, info.Status)
	}
}

// reportUncompensated reports the calls whose compensations failed for good.
func (r *Runner) reportUncompensated(ctx context.Context, o *openRun, status snapshot.Status) {
	failed, err := state.Uncompensated(ctx, r.store, o.runID)
	if len(failed) > 0 {
		err = &uncompensatedError{&core.CompensationError{Failed: failed}}
	}
	if err != nil {
		r.observe(o.notice(NoticeTrouble, status, err))
	}
}

// endLease ends a lease with end. If the lease was lost, endLease abandons it instead.
func (r *Runner) endLease(ctx context.Context, lease Lease, end func() error) {
	select {
	case <-lease.Lost():
		lease.Abandon()
		return
	default:
	}
	if err := end(); err != nil && ctx.Err() == nil {
		e := lease.Entry()
		r.observe(Notice{Type: NoticeTrouble, RunID: e.RunID, Program: e.Program.Name, Version: e.Program.Version, Err: err})
	}
}

func (r *Runner) isStopping() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopping
}

// hasAnswer reports whether the store contains a message that lets a paused run continue: an
// answer, a signal that the run is waiting for, or a cancel that was posted just before the process
// of the run ended. If the compensations of a run wait for an answer, its cancel does not count.
func (r *Runner) hasAnswer(ctx context.Context, info *snapshot.Info) bool {
	waiting, err := r.store.Messages(ctx, info.RunID)
	if err != nil {
		return false
	}
	isCancelled := info.Stop.Reason == record.InterruptCancel
	if slices.ContainsFunc(waiting, func(m snapshot.Message) bool { return m.IsAnswer() || m.IsCancel() && !isCancelled }) {
		return true
	}
	awaited, err := state.AwaitsSignal(ctx, r.store, info.RunID, waiting)
	return err == nil && awaited
}

// resetRestarts resets the crash count of a run that was closed normally.
func (r *Runner) resetRestarts(ctx context.Context, info snapshot.Info) snapshot.Info {
	now, err := r.store.Update(ctx, info.RunID, func(i *snapshot.Info) error { i.Restarts = 0; return nil })
	if err != nil {
		return info // the count remains as it is; another process may have opened the run
	}
	return now
}

func (o *openRun) notice(t NoticeType, status snapshot.Status, err error) Notice {
	return Notice{Type: t, RunID: o.runID, Program: o.program.name, Version: o.program.version, Status: status, Err: err}
}
