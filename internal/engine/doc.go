// Package engine makes calls: it claims their addresses, makes their attempts, decides
// what follows, and appends what happened to the run. It knows no types of inputs and
// outputs. Package core has what users write, and the part of a call that knows the
// types ([Typed]); package state implements [Run].
//
// A call takes these steps, which call.go shows from top to bottom:
//
//  1. The call claims its [record.Address] from the scope in its context.
//  2. The preconditions run, once.
//  3. Each attempt appends a started record, runs the handler and the
//     postconditions, and stores a large output as an artifact.
//  4. The attempt ends with a completed record, a failed record or a suspension.
//     If it is retried, a retrying record and an interruptible wait follow, and
//     then step 3 again.
//
// [Next] decides which step is next, from the records of the call and its rules and
// from nothing else.
//
// Errors are those of package core, which gives them their documentation.
package engine
