package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/internal/callsite"
	"github.com/reprise-go/reprise/record"
)

// compensableCalls holds the calls of a run that can be compensated: completed calls, and calls
// that are in doubt or would be in doubt if they ended now.
type compensableCalls struct {
	// used is set once such calls may exist, so that most calls need no further check.
	used atomic.Bool

	mu     sync.Mutex
	calls  []*completedCall // in the order in which they completed, or began or failed in doubt
	loaded bool             // the recorded calls have been added
	before map[record.Address]*completedCall
}

// A Completed is a call that was recorded as compensable and that has completed or is in doubt.
type Completed struct {
	Address record.Address
	Kind    record.Kind // kind of its actor
	Name    string
	InDoubt bool // the call is in doubt rather than completed

	// By is the innermost surrounding call that failed for good and thereby caused the
	// compensation. It is zero if there is none.
	By record.Address

	// Nth is the number (counted from 1) of this completion of the call, and of its compensation. A
	// call may complete several times if it is compensated and made again. Found is the recorded
	// progress of that compensation, or nil.
	Nth   int
	Found *record.Progress

	// Values returns the recorded input and output of that completion. A call in doubt
	// has no output.
	Values func(ctx context.Context) (in, out []byte, err error)
}

// A completedCall is a call that can be compensated.
type completedCall struct {
	Completed
	call *Call // nil if the call was made in an earlier opening of the run

	appended chan struct{} // closed when the outcome is appended or lost; nil if the call was restored or is in doubt
	lost     bool          // the outcome could not be appended
	taken    bool          // the call is in doubt, and its compensation has begun

	mu   sync.Mutex // held while the call is being compensated
	done bool       // the compensation has an outcome, which has been reported
}

// MayCompensate reports whether there may be work for Compensate.
func (r *Root) MayCompensate() bool { return r.hasCompleted() && !r.settings.Replays }

// hasCompleted reports whether there may be calls to compensate.
func (r *Root) hasCompleted() bool { return r.compensables.used.Load() || r.settings.Completed != nil }

// checkCompensation rejects a call that could not be compensated after a restart. Instead of
// failing, the call is suspended: it continues once the run is opened with the compensation.
func (c *Call) checkCompensation() error {
	settings := c.root.settings
	known := settings.compensation(c.spec.Kind, c.spec.Name)
	if !settings.Outputs || settings.Replays || known != nil && (known.inDoubt != nil || !c.compensableInDoubt) {
		return nil
	}
	what := "a compensation"
	if known != nil {
		what = "a compensation for calls in doubt"
	}
	e := c.parent.InterruptionBy(fmt.Errorf("core: %q has %s, which must be passed when a stored run is opened: "+
		"pass the actor to state.WithCompensations", c.spec.Name, what))
	if c.parent.call == nil {
		c.root.refused.CompareAndSwap(nil, e)
	}
	c.parent.stop(e)
	return e
}

// appendCompensable appends the outcome of a call that can be compensated.
func (c *Call) appendCompensable(p *record.Progress, s *Scope, rec *record.Record) error {
	if c.isInCompensation() {
		return c.append(p, s, rec) // a compensation is not itself compensated
	}
	detailOf(rec).Compensable = true
	// Add the call before its outcome is recorded, so that every call that completed in
	// an attempt is included once the attempt is over.
	done := c.makeCompensables().add(c)
	err := c.append(p, s, rec)
	switch {
	case err == nil:
	case c.doubtEntry != nil: // its start is recorded
		done.InDoubt = true
	default:
		done.lost = true
	}
	close(done.appended)
	return err
}

// isInCompensation reports whether the call is made by a compensation.
func (c *Call) isInCompensation() bool {
	for around := c.parent; around.call != nil; around = around.call.parent {
		if around.call.spec.Kind == record.KindCompensation {
			return true
		}
	}
	return false
}

// compensables returns the calls of the run that can be compensated or, outside any run, such calls
// inside the outermost call. It returns nil if there are none.
func (c *Call) compensables() *compensableCalls {
	if !c.root.isOutside() {
		if c.root.hasCompleted() {
			return &c.root.compensables
		}
		return nil
	}
	if in := c.parent.outermost().state.Load(); in != nil {
		return in.compensables.Load()
	}
	return nil
}

// containsCompensable reports whether there are calls inside the call that can be compensated.
func (c *Call) containsCompensable() bool {
	all := c.compensables()
	if all == nil {
		return false
	}
	key := keyOf(c.address, c)
	return len(all.pick(c.root, func(done *completedCall) bool { return done.isInside(key) })) > 0
}

// makeCompensables is like compensables, but creates the list if it does not exist.
func (c *Call) makeCompensables() *compensableCalls {
	if !c.root.isOutside() {
		return &c.root.compensables
	}
	in := c.parent.outermost().ensureState()
	in.compensables.CompareAndSwap(nil, new(compensableCalls))
	return in.compensables.Load()
}

// outermost returns the outermost scope around s.
func (s *Scope) outermost() *Scope {
	for s.call != nil {
		s = s.call.parent
	}
	return s
}

// add adds a call that is completing.
func (all *compensableCalls) add(c *Call) *completedCall {
	all.mu.Lock()
	defer all.mu.Unlock()
	done := &completedCall{
		Completed: Completed{Address: c.address, Kind: c.spec.Kind, Name: c.spec.Name, Nth: all.number(c)},
		call:      c, appended: make(chan struct{}),
	}
	all.calls = append(all.calls, done)
	all.used.Store(true)
	return done
}

// number returns the number that a compensation of c would have now. It removes an earlier effect
// of c if that effect must no longer be compensated: c completed, was compensated and was made
// again, or c was in doubt and continues. If c was made again because its input changed, both
// effects must be compensated. The caller must hold all.mu.
func (all *compensableCalls) number(c *Call) int {
	if c.doubtEntry != nil {
		if c.doubtEntry.taken {
			return c.doubtEntry.Nth + 1
		}
		all.remove(c.doubtEntry)
		return c.doubtEntry.Nth
	}
	if c.root.settings.History != nil {
		all.load(c.root)
	}
	before := all.before[c.address]
	if before == nil {
		return 1
	}
	delete(all.before, c.address)
	switch goesOn := c.recall != nil && c.recall.found != nil; {
	case before.InDoubt && before.Found == nil && !before.taken && goesOn:
		all.remove(before)
		return before.Nth
	case before.Found != nil && before.Found.Phase == record.StateCompleted:
		all.remove(before)
	}
	return before.Nth + 1
}

// remove removes a call. The caller holds all.mu.
func (all *compensableCalls) remove(c *completedCall) {
	for i, other := range slices.Backward(all.calls) {
		if other == c {
			all.calls = slices.Delete(all.calls, i, i+1)
			return
		}
	}
}

// load adds the recorded calls. The caller holds all.mu.
func (all *compensableCalls) load(root *Root) {
	if all.loaded {
		return
	}
	all.loaded = true
	var before []*completedCall
	all.before = make(map[record.Address]*completedCall)
	var recorded []*Completed
	if root.settings.Completed != nil {
		recorded = root.settings.Completed()
	}
	for _, recorded := range recorded {
		c := &completedCall{Completed: *recorded}
		before, all.before[c.Address] = append(before, c), c
	}
	all.calls = append(before, all.calls...)
}

// pick returns the calls for which choose returns true, latest first. If a picked call
// has a compensation, the calls inside it are left out, because that compensation undoes
// them.
func (all *compensableCalls) pick(root *Root, choose func(*completedCall) bool) []*completedCall {
	all.mu.Lock()
	all.load(root)
	picked := slices.DeleteFunc(slices.Clone(all.calls), func(c *completedCall) bool { return !choose(c) })
	decided := make(map[*completedCall]bool)
	for _, c := range picked {
		decided[c] = !c.By.IsZero()
	}
	all.mu.Unlock()
	slices.Reverse(picked)
	picked = slices.DeleteFunc(picked, (*completedCall).isLost)
	has := make(map[any]bool)
	for _, c := range picked {
		has[c.key()] = true
	}
	return slices.DeleteFunc(picked, func(c *completedCall) bool {
		if decided[c] {
			return false // whether to compensate it was decided earlier
		}
		for around := range c.keysAround() {
			if has[around] {
				return true
			}
		}
		return false
	})
}

// isLost reports whether the outcome of the call could not be appended.
func (c *completedCall) isLost() bool {
	if c.appended == nil {
		return false
	}
	<-c.appended
	return c.lost
}

// key returns a key for the call: its address or, outside a run, the call itself.
func (c *completedCall) key() any { return keyOf(c.Address, c.call) }

func keyOf(a record.Address, c *Call) any {
	if a.IsZero() {
		return c
	}
	return a.String()
}

// keysAround yields the keys of the surrounding calls, innermost first.
func (c *completedCall) keysAround() iter.Seq[any] {
	return func(yield func(any) bool) {
		if c.Address.IsZero() {
			for s := c.call.parent; s.call != nil && yield(s.call); s = s.call.parent {
			}
			return
		}
		for scope := c.Address.Scope(); scope != ""; scope = scope[:max(0, strings.LastIndexByte(scope, '/'))] {
			around := scope
			if at := strings.LastIndexByte(scope, '@'); at > strings.LastIndexByte(scope, '/') {
				around = scope[:at]
			}
			if !yield(around) {
				return
			}
		}
	}
}

// isInside reports whether the call with the given key surrounds c.
func (c *completedCall) isInside(key any) bool {
	for around := range c.keysAround() {
		if around == key {
			return true
		}
	}
	return false
}

// undo compensates the completed calls, and the calls in doubt, inside a call that has failed for
// good. If the call is a root call with an outcome, undo also makes the compensations inside it
// that are still due after an earlier failure. It returns the error that the call returns.
func (c *Call) undo(p *record.Progress, first *Scope, err error) error {
	failed, isRoot := p.Phase == record.StateFailed, c.parent.call == nil
	if settings := c.root.settings; !failed && !isRoot || !p.HasOutcome() || settings.Strict || settings.Replays {
		return err
	}
	own, _ := err.(*CallError) //nolint:errorlint // any other error is not a failure of this call
	if failed && own == nil {
		return err
	}
	if c.spec.Kind.IsParallel() && !isRoot {
		return err
	}
	all := c.compensables()
	if all == nil {
		return err
	}
	key := keyOf(c.address, c)
	inside := all.pick(c.root, func(done *completedCall) bool {
		return (failed || !done.By.IsZero()) && done.isInside(key)
	})
	if len(inside) == 0 {
		return err
	}
	not, e := all.undo(first.outer, c.parent.outermost(), inside, c.address)
	switch {
	case e != nil:
		c.parent.stop(e)
		return e
	case failed:
		own.Err = WithUncompensated(own.Err, not)
	}
	return err
}

// Compensate compensates all calls of a cancelled run that completed or are in doubt. It returns
// the calls that could not be compensated. If it stopped before the last compensation, for example
// because ctx ended, it returns why.
func (r *Root) Compensate(ctx context.Context) ([]FailedCompensation, *InterruptedError) {
	if !r.MayCompensate() {
		return nil, nil
	}
	all := r.compensables.pick(r, func(*completedCall) bool { return true })
	top := &Scope{outer: ctx, root: r, attempt: callsite.CompensationAttempt}
	return r.compensables.undo(ctx, top, all, record.Address{})
}

// undo compensates the calls in order, because the call at by has failed. The context of the
// compensations has the values of outer, but ends only together with top, the root scope. undo
// returns the calls that could not be compensated, or the reason why it stopped.
func (all *compensableCalls) undo(outer context.Context, top *Scope, calls []*completedCall, by record.Address) ([]FailedCompensation, *InterruptedError) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(outer))
	defer cancel(nil)
	if around := top.context(); around.Err() == nil || !top.root.isOutside() { // outside a run, an expired deadline no longer matters
		defer context.AfterFunc(around, func() { cancel(context.Cause(around)) })()
	}
	all.mu.Lock()
	reported := make([]bool, len(calls)) // reported by a call that failed earlier
	for i, c := range calls {
		if c.By.IsZero() {
			c.By = by
		}
		reported[i] = c.By != by && c.Found != nil && c.Found.Phase == record.StateFailed
	}
	all.mu.Unlock()
	var failed []FailedCompensation
	for i, c := range calls {
		if reported[i] {
			continue
		}
		if e := top.endCause(); e != nil {
			return failed, e
		}
		if e := top.root.draining.Load(); e != nil {
			return failed, e
		}
		err := all.compensate(ctx, top, c)
		switch e, _ := err.(*InterruptedError); { //nolint:errorlint // its own suspension
		case e != nil:
			return failed, e
		case err != nil:
			failed = append(failed, FailedCompensation{c.Address, c.Name, err.Error()})
		}
	}
	return failed, nil
}

// compensate makes the compensation of the call. If the compensation fails, compensate returns the
// failure once, and nil after that.
func (all *compensableCalls) compensate(ctx context.Context, top *Scope, c *completedCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.done || c.Found != nil && c.Found.Phase == record.StateCompleted {
		return nil
	}
	if c.InDoubt && !all.take(c) {
		return nil
	}
	stub := &Call{spec: &Spec{Kind: c.Kind, Name: c.Name}, root: top.root, parent: top, scope: top, address: c.Address}
	at := &Scope{outer: ctx, root: top.root, call: stub, attempt: callsite.CompensationAttempt}
	err := c.compensate(at)
	if e := (*CallError)(nil); err == nil || errors.As(err, &e) && !IsSuspension(err) {
		c.done = true
	}
	return err
}

func (c *completedCall) compensate(at *Scope) error {
	switch {
	case c.call != nil && c.InDoubt:
		return c.call.typed.CompensateInDoubt(at, c.Nth, c.Found)
	case c.call != nil:
		return c.call.typed.Compensate(at, c.Nth, c.Found)
	}
	known := at.root.settings.compensation(c.Kind, c.Name)
	if known == nil || c.InDoubt && known.inDoubt == nil {
		return at.InterruptionBy(fmt.Errorf("core: %s must be compensated, but its compensation is unknown: pass the actor to state.WithCompensations", c.Address))
	}
	in, out, err := c.Values(at.outer)
	if err != nil {
		return at.InterruptionBy(fmt.Errorf("core: compensate %s: %w", c.Address, err))
	}
	if c.InDoubt {
		return known.inDoubt(at, c.Nth, c.Found, in, nil)
	}
	return known.undo(at, c.Nth, c.Found, in, out)
}
