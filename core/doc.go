// Package core holds what a call is and how it runs: typed definitions and
// [ExecutionEvent.Execute], retry configuration and backoff, error classes,
// interrupts, addresses and records.
//
// Users of actors mostly need [RetryConfig], [Permanent], [Retryable] and
// [WithRetryAfter] to say what is tried again; [CallError] and
// [InterruptedError] to see what became of a call; [IdempotencyKey] and
// [AddUsage] inside a handler; [Record] to watch. [Definition], [Scope],
// [Root], [Group] and [Run] are what the packages above are made of.
//
// The way of one call is one function that reads downward, in call.go:
//
//  1. The call claims its [Address] from the scope in its context.
//  2. Preconditions, once.
//  3. Each attempt: a started record, the handler, postconditions, artifact
//     storage.
//  4. A completed record; or a failed one, and where it will be retried a
//     retrying one, an interruptible wait, and 3 again; or a suspension.
//
// Every call ends in an outcome (completed, failed) or in a suspension
// (interrupted), which has no outcome and goes on when its run is resumed.
//
// Calls reach their run through the small interface [Run], which package state
// implements; actors of the usual kinds are in package actors.
package core
