// Package record defines the records of runs and calls. A run appends records, publishers carry
// them, stores write them, and printers and dashboards show them. None of these needs to know how
// calls run; that is the task of package core.
//
// A [Record] is one fact. It contains what the fact is about ([Kind], [Address]), what happened
// ([Status], and for a failure [Stage], [Class] and [Reason]), the number of the attempt, and
// times. Inputs and outputs are encoded ([Encode], [Decode]) and shown by [Preview]. An error is
// kept as an [Error]; register your own errors with [RegisterError] and [RegisterErrorType], so
// that errors.Is and errors.As find them after a restart too. [Record.Redacted] returns a copy for
// consoles and wires. Records marshal to and from JSON.
//
// [Progress] is the state of one call according to its records, and [Ledger] is the state of a run.
package record
