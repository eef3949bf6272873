package record

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"syscall"

	"github.com/reprise-go/reprise/internal/mark"
)

// Freeze returns err with the text that it has now, for a record in memory: its
// handler may change it later, or use it again. It returns err itself if nobody
// can change its text. errors.Is and errors.As find err.
func Freeze(err error) error {
	if err == nil || isConstant(err) {
		return err
	}
	return &frozenError{fmt.Sprint(err), err}
}

type frozenError struct {
	text string
	err  error
}

func (e *frozenError) Error() string { return e.text }
func (e *frozenError) Unwrap() error { return e.err }

// constantTypes are types of errors that nobody can change. Those that wrap
// other errors keep the text that they were made with.
var constantTypes = map[reflect.Type]bool{
	reflect.TypeOf(errGone):                               true,
	reflect.TypeOf(fmt.Errorf("%w", errGone)):             true,
	reflect.TypeOf(fmt.Errorf("%w %w", errGone, errGone)): true,
	reflect.TypeOf(context.DeadlineExceeded):              true,
	reflect.TypeFor[syscall.Errno]():                      true,
	reflect.TypeFor[*Error]():                             true,
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
		case *InterruptedError:
			if err = e.Cause; err == nil {
				return true
			}
		default:
			return constantTypes[reflect.TypeOf(err)]
		}
	}
}
