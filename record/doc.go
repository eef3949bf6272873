// Package record defines the records of runs and calls. A run appends records, publishers transmit
// them, stores write them, and printers and dashboards show them. None of these needs to know how
// calls run, which is the task of package core.
//
// A [Record] states one fact. It contains what the fact is about ([Kind], [Address]), what happened
// ([Status], and for a failure [Stage], [Class] and [Reason]), the number of the attempt, and
// times. Inputs and outputs are encoded ([Encode], [Decode]); [Preview] makes them readable. An
// error is kept as an [Error]. Register your own errors with [RegisterError] and
// [RegisterErrorType], so that errors.Is and errors.As find them even after a restart.
// [Record.Redacted] returns a copy of a record for consoles and for transmission. Records marshal
// to and from JSON.
//
// [Progress] is the state of a call according to its records, and [Ledger] is the state of a run.
package record
