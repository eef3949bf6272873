// Package core holds what a call is and how it runs.
//
// Users of actors need a dozen of its names:
//
//   - [RetryConfig] says what is tried again, how often and when; in a handler,
//     [Permanent], [Retryable] and [WithRetryAfter] say it for one error.
//   - [CallError] and [InterruptedError] say what became of a call. errors.Is
//     and errors.As find the handler's own error in the first.
//   - In a handler, [IdempotencyKey] makes an effect happen once, [Step] records
//     what may come out differently the next time, [Await] asks somebody
//     outside, [AddUsage] counts what the call consumed.
//
// What calls produce while they go on is shown by package live, and what is on
// record about them is in package record. [NewDefinition],
// [Definition] and [ExecutionEvent] are what actors are made of; [Run], [Root]
// and [Scope] are how calls and their run, which package state implements,
// meet.
//
// The way of one call, which call.go reads downward:
//
//  1. The call claims its [record.Address] from the scope in its context.
//  2. Preconditions, once.
//  3. Each attempt: a started record, the handler, postconditions, artifact
//     storage.
//  4. A completed record; or a failed one, and where it will be retried a
//     retrying one, an interruptible wait, and 3 again; or a suspension.
//
// Every call ends in an outcome (completed, failed) or in a suspension
// (interrupted), which has no outcome and goes on when its run is resumed.
//
// Actors of the usual kinds are in package actors.
package core
