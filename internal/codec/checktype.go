package codec

import (
	"errors"
	"reflect"
)

// CheckType returns an error if values of the type cannot come back from their
// encoding. It is an *[UnsupportedError] if the zero value cannot be encoded: a
// channel, a function or the like, as the type itself, a field or an element of
// an array. Where that depends on the value, as behind a pointer or in a slice,
// which may be empty, there is no error. It is a *[LossError] if something would
// come back without its content, wherever it is.
func CheckType(t reflect.Type) error {
	if t == nil || holdsNothing(t.Kind()) && !isUnsupported(t.Kind()) && formOf(t) == byKind && readFormOf(t) == byKind {
		return nil
	}
	if problem := unencodable.of(t, findUnencodable); problem != nil {
		return problem
	}
	return asError(losses.of(t, func(t reflect.Type) *LossError { return findLoss(t, true) }))
}

// CheckInput returns a *[LossError] if the encodings of values of the type do not
// tell all of them apart: what it would lose is not in their hashes.
func CheckInput(t reflect.Type) error {
	if t == nil || holdsNothing(t.Kind()) {
		return nil
	}
	return asError(inputLosses.of(t, func(t reflect.Type) *LossError { return findLoss(t, false) }))
}

var (
	unencodable         perType[*UnsupportedError]
	losses, inputLosses perType[*LossError]
)

func findUnencodable(t reflect.Type) (problem *UnsupportedError) {
	_, err := Encode(reflect.Zero(t).Interface())
	errors.As(err, &problem)
	return problem
}

func asError(e *LossError) error {
	if e == nil {
		return nil
	}
	return e
}
