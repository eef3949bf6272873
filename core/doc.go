// Package core defines calls and runs them.
//
// Users of package actors need about a dozen names from this package:
//
//   - [RetryConfig] sets which errors are retried, how often and when. In a handler, [Permanent],
//     [Retryable] and [WithRetryAfter] set this for a single error.
//   - A call returns a [CallError] if it failed and an [InterruptedError] if it was
//     suspended. errors.Is and errors.As find the handler's own error in a CallError.
//   - In a handler, [IdempotencyKey] makes an effect happen once, [Step] records a result that may
//     differ the next time, [Await] asks somebody outside the run, and [AddUsage] counts what the
//     call consumed.
//
// Package live passes on what calls produce while they run, and package record defines what is
// recorded about them. Actors are built with [NewDefinition], [Definition] and [ExecutionEvent];
// the engine that makes their calls is not part of the API.
//
// A call claims its [record.Address] from the context with which it is made. Its preconditions run
// once. Each attempt runs the handler and the postconditions, and ends with a completed record, a
// failed record or a suspension. If the call is retried, an interruptible wait follows, and then
// another attempt.
//
// Every call ends either in an outcome (completed, failed) or in a suspension (interrupted). A
// suspended call has no outcome and continues when its run is resumed.
//
// Package actors provides the usual kinds of actors.
package core
