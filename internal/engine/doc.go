// Package engine executes calls: it claims their addresses, makes their attempts, decides what
// follows, and appends records to the run. It does not know the types of inputs and outputs.
// Package core contains the API for users and the typed part of a call ([Typed]). Package state
// implements [Run].
//
// A call takes the following steps, which call.go contains in the same order:
//
//  1. The call claims its [record.Address] from the scope in its context.
//  2. The preconditions run, once.
//  3. Each attempt appends a started record, runs the handler and the
//     postconditions, and stores a large output as an artifact.
//  4. The attempt ends with a completed record, a failed record or a suspension.
//     If it is retried, a retrying record and an interruptible wait follow, and
//     then step 3 again.
//
// [Next] decides the next step. Its decision depends only on the records and the rules of the call.
//
// The errors are documented in package core.
package engine
