package engine

import (
	"context"
	"runtime/debug"
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
)

// This file calls interceptors. The engine enforces the rules of an attempt: each interceptor can
// make one attempt, and a result that breaks a rule is corrected (see [Interceptor]).

// interceptors returns the interceptors for attempts of the call, outermost
// first.
func (c *Call) interceptors() (ofRun, own []Interceptor) {
	if c.spec.Kind.IsParallel() || c.root.settings.Replays {
		return nil, nil
	}
	if c.guard != nil {
		own = c.guard.interceptors
	}
	return c.root.settings.Interceptors, own
}

// A Guard holds what surrounds the attempts of a call. It is immutable.
type Guard struct {
	slot         Slot // nil for none
	interceptors []Interceptor
}

// With returns the guard with more interceptors, placed inside the existing ones. It returns nil if
// the result would contain nothing.
func (g *Guard) With(more []Interceptor) *Guard {
	if len(more) == 0 {
		return g
	}
	var own Guard
	if g != nil {
		own = *g
	}
	own.interceptors = append(slices.Clip(own.interceptors), more...)
	return &own
}

// An interception is an attempt with interceptors around it.
type interception struct {
	CallInfo
	c         *Call
	s         *Scope
	ofRun     []Interceptor
	own       []Interceptor
	outer     context.Context // passed to the outermost interceptor
	beginning time.Time
	spent     time.Duration // RetryTimeout used up before the attempt

	state    interceptionState
	over     bool          // the attempt has a result
	parked   time.Duration // how long the run is parked before the attempt is made; 0 if it is not
	panicked bool          // an interceptor panicked
	r        attemptEnd    // result of the handler, if it has run
	failed   *classedError // the failure, as interceptors see it; nil if there is none
}

// interceptionState tells where the result of the attempt comes from.
type interceptionState uint8

const (
	begun    interceptionState = iota // no result yet
	made                              // from the handler
	answered                          // from an interceptor
)

func (c *Call) interception(s *Scope, ofRun, own []Interceptor) *interception {
	in := &interception{c: c, s: s, ofRun: ofRun, own: own}
	in.CallInfo = CallInfo{
		RunID: c.root.settings.RunID, Tags: c.root.settings.Tags, Address: c.address, Kind: c.spec.Kind, Name: c.spec.Name,
		Number: s.Attempt() + 1, in: in,
	}
	return in
}

// passIntercepted makes a pass with interceptors around it.
func (c *Call) passIntercepted(s *Scope, began time.Time, spent time.Duration, ofRun, own []Interceptor) attemptEnd {
	in := c.interception(s, ofRun, own)
	in.beginning, in.spent = began, spent
	outside := &Scope{outer: s.outer, root: s.root, call: c, attempt: s.attempt}
	outside.closed.Store(true)
	in.outer = outside.context()
	defer s.close()
	err := in.runFrom(in.outer, 0)
	in.over = true
	ran := in.ran()
	acted := ran && (in.r.Err == nil || c.mayHaveActed(&in.r))
	switch e := in.suspended(); {
	case e != nil && in.state != made:
		return attemptEnd{Result: Result{Err: e, refused: true, parked: in.parked}}
	case e != nil, err == nil && in.state == made:
		return in.r
	case err == nil:
		r := c.typed.KeepOutput(s.context())
		r.cached, r.refused, r.acted = true, !ran, acted
		return attemptEnd{Result: r}
	}
	c.typed.Clear()
	r := attemptEnd{Result: Result{Err: err, Stage: record.StageHandler, refused: !ran, acted: acted, Panicked: in.panicked || in.r.Panicked}}
	switch own, ok := err.(*classedError); { //nolint:errorlint // the error of the pass itself
	case ok && own == in.failed:
		r.Err, r.findings = in.r.Err, in.r.findings
	case ok:
		r.Err = own.error
	}
	if in.r.Err != nil {
		r.Stage = in.r.Stage
	}
	return r
}

// ran reports whether the handler has run. An interceptor may answer after the handler failed.
func (in *interception) ran() bool { return in.state == made || in.r.Err != nil }

func (in *interception) at(i int) *Interceptor {
	if i < len(in.ofRun) {
		return &in.ofRun[i]
	}
	return &in.own[i-len(in.ofRun)]
}

// runFrom makes the attempt inside the interceptors starting at index i, and
// returns its error as seen by the surrounding interceptor.
func (in *interception) runFrom(ctx context.Context, i int) error {
	for ; i < len(in.ofRun)+len(in.own); i++ {
		if in.at(i).Attempt != nil {
			return in.callInterceptor(ctx, i)
		}
	}
	return in.pass(ctx)
}

// callInterceptor calls interceptor i.
func (in *interception) callInterceptor(ctx context.Context, i int) error {
	n := &nextAttempt{in: in, i: i + 1, busy: make(chan struct{}, 1)}
	err := n.offer(ctx, in.at(i).Attempt)
	switch e := in.suspended(); {
	case e != nil:
		return e
	case err == nil && in.state == answered:
		return nil
	case err == nil && !n.used:
		return markPermanent(errNoAttempt)
	case err == nil:
		return n.err
	case n.err == nil || safeIs(err, n.err):
		return err
	}
	return newAfterError(err, n.err)
}

// nextAttempt is the attempt that an interceptor may make.
type nextAttempt struct {
	in *interception
	i  int // index of the next inner interceptor

	busy chan struct{} // has a value while the attempt is being made
	used bool
	late bool // the interceptor has returned
	err  error
}

// offer calls the interceptor and returns its error, or its panic as an error. If the interceptor
// returns while its attempt is still being made on another goroutine, offer waits for the attempt,
// because an attempt may end only once.
func (n *nextAttempt) offer(ctx context.Context, to func(context.Context, *CallInfo, func(context.Context) error) error) (err error) {
	defer func() {
		p := recover()
		n.busy <- struct{}{}
		n.late = true
		<-n.busy
		if p != nil {
			err, n.in.panicked = &PanicError{Value: p, Stack: debug.Stack()}, true
		}
	}()
	return to(ctx, &n.in.CallInfo, n.make)
}

func (n *nextAttempt) make(ctx context.Context) error {
	select {
	case n.busy <- struct{}{}:
		defer func() { <-n.busy }()
	default:
		return errNextTwice
	}
	switch {
	case n.late || n.in.state == answered:
		return errNextTwice
	case n.used:
		return newAfterError(errNextTwice, n.err)
	}
	n.used, n.err = true, errGoexit // replaced if it returns
	n.err = n.in.runFrom(ctx, n.i)
	return n.err
}

// pass runs the handler, and returns its error with the class that was determined.
func (in *interception) pass(ctx context.Context) error {
	c, s, now := in.c, in.s, time.Now()
	total, spent := c.policy.RetryTimeout, in.spentUntil(now)
	switch {
	case ctx == nil || ScopeOf(ctx) != ScopeOf(in.outer):
		return markPermanent(errForeignContext)
	case s.suspended() != nil:
		return s.suspended()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case total > 0 && spent >= total:
		return errNoTimeLeft
	}
	in.state, in.r.Result = made, Result{Err: errGoexit, Stage: record.StageHandler, Panicked: true} // replaced if it returns
	ctx, free := in.joinContext(ctx)
	defer free()
	in.r.Result = c.pass(s, now, spent)
	if ctx != s.outer && ctx.Err() != nil && s.outer.Err() == nil {
		s.ensureState().overrun = true
	}
	if e := in.suspended(); e != nil {
		return e
	}
	if in.r.Err == nil {
		return nil
	}
	class := c.classify(&in.r).class
	in.failed = &classedError{in.r.Err, class}
	return in.failed
}

// joinContext makes ctx the handler's context. Even if ctx was detached from the context that the
// interceptors received, it ends together with that context.
func (in *interception) joinContext(ctx context.Context) (joined context.Context, free func()) {
	if ctx == in.outer {
		return in.s.outer, func() {}
	}
	free = func() {}
	if ctx.Done() != in.outer.Done() {
		own, cancel := context.WithCancelCause(ctx)
		stop := context.AfterFunc(in.s.outer, func() { cancel(context.Cause(in.s.outer)) })
		ctx, free = own, func() { stop(); cancel(nil) }
	}
	in.s.ensureState().handlerContext.Store(&ctx)
	return ctx, free
}

// suspended returns why the attempt has no outcome, or nil if it has one.
func (in *interception) suspended() *InterruptedError {
	if in.state == made {
		return in.c.suspension(in.s, in.r.Err)
	}
	return in.s.suspended()
}

// stopError returns the error for an attempt that must not be made.
func (in *interception) stopError(ctx context.Context) error {
	if !in.c.askChecker(ctx) {
		return nil
	}
	if e := in.c.stopCause(); e != nil {
		in.s.Suspend(e)
		return e
	}
	return context.Cause(ctx)
}

// spentUntil returns how much of RetryTimeout has been used up.
func (in *interception) spentUntil(now time.Time) time.Duration {
	return in.spent + now.Sub(in.beginning)
}

// limitedContext returns the attempt's context, limited by the attempt's timeout.
func (in *interception) limitedContext() (context.Context, context.CancelFunc) {
	timeout := in.c.policy.timeout(in.c.spec, in.c.hasOwnPolicy)
	if timeout <= 0 {
		return in.s.context(), func() {}
	}
	return context.WithTimeout(in.s.context(), timeout)
}

// askMayRetry asks the interceptors whether another attempt may follow. If one of
// them refuses, the result contains its error.
func (c *Call) askMayRetry(s *Scope, f *failure) (r Result) {
	ofRun, own := c.interceptors()
	if len(ofRun)+len(own) == 0 {
		return Result{}
	}
	r.Stage = f.Stage
	in := c.interception(s, ofRun, own)
	in.over = true
	var allowed []func()
	defer func() {
		if r.Err != nil {
			for _, giveBack := range slices.Backward(allowed) {
				giveBack()
			}
		}
	}()
	defer r.RecoverPanic()
	failed := &classedError{f.Err, f.class}
	for i := range len(ofRun) + len(own) {
		ask := in.at(i).Retry
		if ask == nil {
			continue
		}
		giveBack, refused := ask(&in.CallInfo, failed)
		if refused != nil {
			r.Err = replaceEndless(refused)
			return r
		}
		if giveBack != nil {
			allowed = append(allowed, giveBack)
		}
	}
	return r
}
