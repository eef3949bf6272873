package core

import "github.com/reprise-go/reprise/internal/engine"

// An Interceptor is called around the attempts of calls: of all calls of a run
// (state.WithInterceptors), of one actor ([Spec].Interceptors) or of one event
// ([ExecutionEvent.WithInterceptors]). The run's interceptors are outermost; within each list, the
// first is outermost. Groups and the branches of actors.Parallel have no interceptors; the calls
// inside them do. A nil function does nothing.
//
// An interceptor sees calls without their types, so that one interceptor can serve all actors. Code
// that needs the types belongs in a function that calls the handler. Pass that function to the
// actor's constructor in place of the handler.
//
// Interceptors are called on many goroutines and belong to the process: they are not recorded, and
// a run may be resumed with other interceptors. They are not called for recalled calls, for
// handlers that run again only for comparison with the records, or in runs that are replayed or
// validated. A handler must not depend on a value that only an interceptor puts into its context.
//
//	Attempt func(ctx context.Context, call *CallInfo, next func(context.Context) error) error
//	Retry   func(call *CallInfo, err error) (giveBack func(), refused error)
//
// Attempt is called when an attempt has begun, after its started record and outside its time limit.
// It makes the attempt by calling next once, with ctx or a context derived from ctx; that context
// becomes the handler's. next returns nil if the attempt succeeded, an [InterruptedError] (see
// [IsSuspension]) if it was suspended, and otherwise the attempt's error, whose class
// [record.Classify] returns. The result of Attempt decides how the attempt ends:
//
//   - If next failed, the attempt has failed. An error from Attempt replaces the error from next
//     and usually wraps it, for example with [Permanent] or [Retryable]. If Attempt returns nil,
//     the error from next stays.
//   - If next succeeded, an error from Attempt makes the attempt fail.
//   - If next returned an [InterruptedError], the attempt is suspended, whatever Attempt returns.
//   - If Attempt called Answer and returns nil, the call completes with the output passed to
//     Answer.
//   - If Attempt called neither next nor Answer, its error refuses the attempt: the handler did not
//     run. The attempt has failed, and is retried as after any failure. With a [Permanent] error it
//     is not retried, and with [ErrBudget] the call fails with ReasonBudget. If Attempt returns
//     nil, the call fails for good.
//
// If Attempt panics, the call fails for good. Attempt must return when ctx ends. The time that
// Attempt takes counts as part of the attempt and towards RetryTimeout, but not towards the
// attempt's timeout. Attempt must not make calls with ctx: they return [ErrAttemptOver], and are
// not recorded.
//
// Retry is called after an attempt has failed with err, before another attempt is announced, and
// only if nothing else forbids another attempt. If Retry returns an error, that refuses the
// attempt: the call fails with ReasonBudget, and the error says why. If Retry keeps count of what
// it allows, it returns giveBack, which is called if another interceptor refuses the attempt;
// otherwise giveBack is nil. Answer, Output and Wait return errors when Retry calls them.
type Interceptor = engine.Interceptor

// A CallInfo describes an attempt of a call to an [Interceptor]. Its methods may be called only on
// the goroutine that called the interceptor, and only until the interceptor returns.
//
//	RunID   string         // empty outside a run
//	Tags    []string       // of the run; they must not be changed
//	Address record.Address // of the call; zero outside a run
//	Kind    record.Kind
//	Name    string // of the actor
//	Number  int    // of the attempt, from 1
//
// Methods about the call and its outcome:
//
//	Input() ([]byte, error)          // encoded; it must not be changed
//	InputHash() (record.Hash, error) // of what [Definition.Identify] returns, or else of the whole input
//	Output() ([]byte, error)         // encoded; an error before next has succeeded, and for an actor that is NoStore
//	Made() bool                      // the handler of the attempt has run, even if an interceptor has answered since
//	Err() error                      // of the handler, as next returned it, even if an interceptor has answered since; nil if it has not failed
//	Compensable() bool               // the actor has a compensation, or the call has already made calls that can be compensated
//	Answered() bool                  // an interceptor has answered the attempt
//	Usage() record.Usage             // what the attempt has consumed so far, without the calls inside it
//	RunCounts() record.Counts        // of the run since it began, including this attempt; zero outside a run
//
// Answer(encoded []byte) error gives the attempt an output, either without running its handler or
// after the handler has failed. The completed call's record has Detail.Cached set. The argument
// must be an output of the actor, as returned by Output. Postconditions are checked. If they do not
// hold, or the output does not fit the type, Answer returns an error, and next can still be called.
// Answer also returns an error if the handler may have had an effect that must not be repeated: see
// [InDoubtPolicy].
//
// Wait(ctx context.Context, d time.Duration, why string) error waits for d before the handler runs.
// If ctx ends, the run is interrupted, or nothing new may begin in the run, Wait returns an error,
// which the interceptor must return. The wait is recorded as a log line that contains the text of
// why, such as "the limit of requests per minute". A wait that would not end before RetryTimeout or
// the deadline of ctx does not begin. A wait longer than the threshold of state.WithParking parks
// the run: Wait returns an error at once, and the attempt is made when the time has passed.
// WaitFor(ctx context.Context, ready <-chan struct{}, expected time.Duration, why string) error
// waits until ready is closed; expected is how long that is likely to take.
//
// Annotate(key, value) and AddUsage(usage) do for the attempt what [Annotate] and [AddUsage] do.
// Log(level, message, metadata) appends a line with the call's address to the run's log. Outside a
// run, or after the run has been closed, the line is lost.
type CallInfo = engine.CallInfo
