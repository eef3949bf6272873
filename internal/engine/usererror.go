package engine

import (
	"errors"
	"fmt"

	"github.com/reprise-go/reprise/internal/errtree"
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
func finite(err error) (finite error) {
	defer func() {
		if recover() != nil {
			finite = err
		}
	}()
	if errtree.Walk(err, func(error) {}) {
		return err
	}
	return fmt.Errorf("the error, a %T, wraps itself, or others more than %d levels deep", err, errtree.MaxDepth)
}
