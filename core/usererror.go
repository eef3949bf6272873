package core

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"syscall"

	"github.com/reprise-go/reprise/internal/mark"
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

// maxWrapped is the number of levels to which errors may be wrapped.
const maxWrapped = 10_000

// finite returns err, or another error in its place if err wraps itself:
// errors.Is would never return for such an error, or end the process.
func finite(err error) error {
	if err == nil || endsWithin(err, maxWrapped) {
		return err
	}
	return fmt.Errorf("the error, a %T, wraps itself, or others more than %d levels deep", err, maxWrapped)
}

// endsWithin reports whether err wraps at most that many levels. An error whose
// methods panic counts as the last level.
func endsWithin(err error, levels int) (ends bool) {
	defer func() {
		if recover() != nil {
			ends = true
		}
	}()
	for ; err != nil; levels-- {
		if levels == 0 {
			return false
		}
		switch wrapper := err.(type) { //nolint:errorlint // each level by itself
		case interface{ Unwrap() error }:
			err = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range wrapper.Unwrap() {
				if inner != nil && !endsWithin(inner, levels-1) {
					return false
				}
			}
			return true
		default:
			return true
		}
	}
	return true
}

// frozenError is an error with the text that it had when it was recorded. Its
// handler may change it later, or use it again.
type frozenError struct {
	text string
	err  error
}

func (e *frozenError) Error() string { return e.text }
func (e *frozenError) Unwrap() error { return e.err }

// constantTypes are types of errors that nobody can change. Those that wrap
// other errors keep the text that they were made with.
var constantTypes = map[reflect.Type]bool{
	reflect.TypeOf(errors.New("")):                        true,
	reflect.TypeOf(fmt.Errorf("%w", errGone)):             true,
	reflect.TypeOf(fmt.Errorf("%w %w", errGone, errGone)): true,
	reflect.TypeOf(context.DeadlineExceeded):              true,
	reflect.TypeFor[syscall.Errno]():                      true,
	reflect.TypeFor[*record.Error]():                      true,
	reflect.TypeFor[*frozenError]():                       true,
}

var errGone = errors.New("")

// isConstant reports whether nobody can change the text of err.
func isConstant(err error) bool {
	for {
		switch e := err.(type) { //nolint:errorlint // each by itself
		case *mark.Permanent:
			err = e.Err
		case *mark.Retryable:
			err = e.Err
		case *record.InterruptedError:
			if err = e.Cause; err == nil {
				return true
			}
		default:
			return constantTypes[reflect.TypeOf(err)]
		}
	}
}
