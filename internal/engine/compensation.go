package engine

import (
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A Compensation undoes the calls of one actor, given their records.
type Compensation struct {
	kind    record.Kind // kind of the actor
	name    string
	undo    Undo
	inDoubt Undo // for calls in doubt; nil if they are not compensated
}

// Undo makes the nth compensation of a call. at is the scope of that call. found is the recorded
// progress of the compensation. in and out are the encoded input and output of the call. A call in
// doubt has no output.
type Undo func(at *Scope, nth int, found *record.Progress, in, out []byte) error

// NewCompensation returns a compensation for calls of the given actor.
func NewCompensation(kind record.Kind, name string, undo Undo) *Compensation {
	return &Compensation{kind: kind, name: name, undo: undo}
}

// InDoubt returns a copy that also undoes calls in doubt.
func (c *Compensation) InDoubt(undo Undo) *Compensation {
	own := *c
	own.inDoubt = undo
	return &own
}

// With returns a copy that undoes completed calls with undo.
func (c *Compensation) With(undo Undo) *Compensation {
	own := *c
	own.undo = undo
	return &own
}

// Actor returns the kind and the name of the actor whose calls are undone.
func (c *Compensation) Actor() (record.Kind, string) { return c.kind, c.name }

// compensation returns the compensation of the actor, or nil if there is none.
func (s *Settings) compensation(kind record.Kind, name string) *Compensation {
	for _, c := range s.Compensations {
		if c.kind == kind && c.name == name {
			return c
		}
	}
	return nil
}

// A CompensationError lists the compensations that failed for good. errors.As
// finds it in the error of the call whose failure caused them.
type CompensationError struct {
	Failed []FailedCompensation // in the order in which they were made
}

// A FailedCompensation is a compensation that failed for good.
type FailedCompensation struct {
	Address record.Address // address of the call to be undone; zero outside a run
	Name    string         // name of its actor
	Message string         // the error
}

// Error lists the failures.
func (e *CompensationError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "not compensated: ")
	for i, f := range e.Failed {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(f.Message)
	}
	return b.String()
}

func init() { record.RegisterErrorType[*CompensationError]("core.CompensationError") }

// compensatedError adds the failed compensations to the error of a call. Whether the call
// is retried depends only on its own error, so the errors of the compensations are not
// part of the error tree.
type compensatedError struct {
	err    error
	failed *CompensationError
}

// WithUncompensated returns err with the failed compensations added, or err itself if there are
// none.
func WithUncompensated(err error, failed []FailedCompensation) error {
	if len(failed) == 0 {
		return err
	}
	return &compensatedError{err, &CompensationError{failed}}
}

func (e *compensatedError) Error() string { return fmt.Sprintf("%v; %v", e.err, e.failed) }

func (e *compensatedError) Unwrap() []error { return []error{e.err, e.failed} }
