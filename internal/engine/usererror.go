package engine

import (
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/internal/errtree"
	"github.com/reprise-go/reprise/record"
)

// Handlers return errors of users' types. The methods of such an error may panic, and the error may
// wrap itself or change after it was returned.

// safeIs is errors.Is for errors of users' types. If the error contains a nil pointer whose
// methods panic, only the call must fail, not the process.
func safeIs(err, target error) (found bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// replaceEndless returns err, or a replacement if err wraps itself. For an error that wraps itself,
// errors.Is would never return or would end the process. An error whose methods panic counts as
// finite.
func replaceEndless(err error) error {
	if record.Inspect(err).Endless {
		return endlessReplacement(err)
	}
	return err
}

// endlessReplacement returns the replacement for an error that wraps itself. A timeout remains a
// timeout.
func endlessReplacement(err error) error {
	timeout, ok := err.(*TimeoutError) //nolint:errorlint // err itself: errors.As would not return
	if !ok || timeout == nil {
		return newEndlessError(err)
	}
	return &TimeoutError{Limit: timeout.Limit, Err: newEndlessError(timeout.Err)}
}

func newEndlessError(err error) error {
	return fmt.Errorf("the error, a %T, wraps itself, or wraps others more than %d levels deep", err, errtree.MaxDepth)
}

// findings holds what a single walk through an attempt's error has found. All decisions about the
// error are based on it.
type findings struct {
	traits  record.Traits
	kept    error // the error in its recorded form
	current bool  // the findings belong to the current error of the attempt
}

// find determines the findings of the error. It replaces an error that wraps itself.
func (c *Call) find(r *attemptEnd) {
	if r.Err == nil || r.current {
		return
	}
	c.findAll(r)
	if r.traits.Endless {
		r.Err = endlessReplacement(r.Err)
		c.findAll(r)
	}
	r.current = true
}

func (c *Call) findAll(r *attemptEnd) {
	if c.root.isOutside() {
		r.traits, r.kept = record.Inspect(r.Err), r.Err
	} else {
		r.traits, r.kept = record.Keep(r.Err, c.root.settings.Outputs)
	}
}

// replace replaces the error and discards the findings about the old one.
func (a *attemptEnd) replace(err error) { a.Err, a.findings = err, findings{} }
