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

// frozenError is an error with the text that it had. Its handler may go on to
// change it, or use it again.
type frozenError struct {
	text string
	err  error
}

func (e *frozenError) Error() string { return e.text }
func (e *frozenError) Unwrap() error { return e.err }

// frozen is err as a record may keep it: its text does not change any more.
func frozen(err error) error {
	if err == nil || isConstant(err) {
		return err
	}
	return &frozenError{fmt.Sprint(err), err}
}

// constantTypes are types of errors that nobody can change. Those that wrap
// have the text that they were made with.
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
