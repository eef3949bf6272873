// Package record holds what is on record about runs and calls. History keeps
// records, publishers carry them, stores write them, printers and dashboards
// show them. None of them needs to know how calls run, which is package core.
//
// A [Record] is one fact: what it is about ([Kind], [Address]), what happened
// ([Status], and for what failed [Stage], [Class] and [Reason]), which attempt
// it was, and its times. Inputs and outputs are encoded ([Encode], [Decode]) and
// shown by [Preview]. An error is kept as an [Error]; register your own with
// [RegisterError] and [RegisterErrorType], so that errors.Is and errors.As find
// them after a restart too. [Record.Redacted] is for consoles and wires. Records
// have a form in JSON, which the record itself writes and reads.
//
// [Progress] is what the records of one call come to.
package record
