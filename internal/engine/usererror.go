package engine

import (
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/internal/errtree"
	"github.com/reprise-go/reprise/record"
)

// Errors of handlers are the users' own: their methods may panic, they may wrap
// themselves, and they may change after they were returned.

// is is errors.Is for errors of users: one with a nil pointer in it, whose
// methods panic, must cost its call and not the process.
func is(err, target error) (found bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// finite returns err, or another error in its place if err wraps itself:
// errors.Is would never return for such an error, or end the process. An error
// whose methods panic is finite.
func finite(err error) error {
	if record.Inspect(err).Endless {
		return errEndless(err)
	}
	return err
}

func errEndless(err error) error {
	return fmt.Errorf("the error, a %T, wraps itself, or others more than %d levels deep", err, errtree.MaxDepth)
}

// findings are what is found of the error of an attempt in one walk. Whatever depends
// on the error is decided by them.
type findings struct {
	traits record.Traits
	kept   error // as a record keeps it
	made   bool  // they are of the error that the attempt has
}

// find makes the findings of the error. It puts another error in the place of one that
// wraps itself.
func (c *Call) find(r *attempted) {
	if r.Err == nil || r.made {
		return
	}
	c.findAll(r)
	if r.traits.Endless {
		r.Err = errEndless(r.Err)
		c.findAll(r)
	}
	r.made = true
}

func (c *Call) findAll(r *attempted) {
	if c.root.isOutside() {
		r.traits, r.kept = record.Inspect(r.Err), r.Err
	} else {
		r.traits, r.kept = record.Keep(r.Err, c.root.settings.Outputs)
	}
}

// replace replaces the error.
func (a *attempted) replace(err error) { a.Err, a.findings = err, findings{} }
