package engine

import (
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// A Compensation undoes calls of one actor, of which only the records are known.
type Compensation struct {
	kind     record.Kind // of the actor
	name     string
	restored Undo
	inDoubt  Undo // the same for a call in doubt; nil if such calls are not compensated
}

// Undo makes compensation nth of the call whose scope is at, of which found is recorded.
// In and out are the encoded input and output of that call. A call in doubt has no output.
type Undo func(at *Scope, nth int, found *record.Progress, in, out []byte) error

// NewCompensation returns a compensation for calls of the actor.
func NewCompensation(kind record.Kind, name string, undo Undo) *Compensation {
	return &Compensation{kind: kind, name: name, restored: undo}
}

// InDoubt returns a copy that undoes calls in doubt, too.
func (c *Compensation) InDoubt(undo Undo) *Compensation {
	own := *c
	own.inDoubt = undo
	return &own
}

// With returns a copy that undoes completed calls by undo.
func (c *Compensation) With(undo Undo) *Compensation {
	own := *c
	own.restored = undo
	return &own
}

// Actor returns the kind and the name of the actor that it belongs to.
func (c *Compensation) Actor() (record.Kind, string) { return c.kind, c.name }

// compensation returns the compensation of the actor; nil if it has none.
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

// A FailedCompensation is one compensation that failed for good.
type FailedCompensation struct {
	Address record.Address // of the call that was to be undone; zero outside a run
	Name    string         // of its actor
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

// withCompensation is the error of a call some of whose compensations failed.
// Whether the call is retried depends on its own error alone, so theirs are not
// part of the tree.
type withCompensation struct {
	err    error
	failed *CompensationError
}

func (e *withCompensation) Error() string { return fmt.Sprintf("%v; %v", e.err, e.failed) }

func (e *withCompensation) Unwrap() []error { return []error{e.err, e.failed} }
