package record

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"syscall"

	"github.com/reprise-go/reprise/internal/mark"
)

// A frozenError keeps the text that an error had when it was frozen, since the handler may change
// the error later or use it again. errors.Is and errors.As still find the original error.
type frozenError struct {
	text      string
	err       error
	recorded  *Error // the recorded form, or nil if it is not known
	traits    Traits
	hasTraits bool // traits is set
}

// Keep is like Inspect, but also returns a form of err for a record. This form has the current text
// of err and all data that the record needs, so that the errors that err wraps are walked only
// once: if the record is stored, ErrorOf(kept) does not walk them again. kept is err itself if err
// is an *Error, a suspension or endless. If the record stays in memory, kept is also err itself if
// err cannot change and wraps nothing.
func Keep(err error, stored bool) (found Traits, kept error) {
	if e, ok := err.(*Error); ok { //nolint:errorlint // err itself, not one that it wraps
		return Inspect(e), e
	}
	if !stored {
		if reflect.TypeOf(err) == plainType {
			var t traits
			t.addPlain(err)
			return t.toTraits(), err
		}
		if found = Inspect(err); found.Endless || found.Interrupted || isConstant(err) && !wrapsOther(err) {
			return found, err
		}
		return found, &frozenError{text: fmt.Sprint(err), err: err, traits: found, hasTraits: true}
	}
	tree := treeOf(err)
	found = tree.traits()
	if found.Endless = tree.isEndless; found.Endless || found.Interrupted {
		return found, err
	}
	recorded := tree.describe(err, found, 0, true)
	return found, &frozenError{recorded.Message, err, recorded, found, true}
}

func (e *frozenError) Error() string { return e.text }
func (e *frozenError) Unwrap() error { return e.err }

// constantTypes are the types of errors whose text cannot change. An error of such a type that
// wraps other errors keeps the text that it had when it was made.
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

// wrapsOther reports whether err wraps errors that users made.
func wrapsOther(err error) bool {
	switch e := err.(type) { //nolint:errorlint // each error by itself
	case *mark.Permanent:
		return wrapsOther(e.Err)
	case *mark.Retryable:
		return wrapsOther(e.Err)
	case *frozenError:
		return !e.hasTraits
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return true
	}
	return false
}

// isConstant reports whether the text of err cannot change.
func isConstant(err error) bool {
	for {
		switch e := err.(type) { //nolint:errorlint // each error by itself
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
