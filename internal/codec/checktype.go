package codec

import (
	"errors"
	"reflect"
)

// CheckType returns an error if values of the type cannot be restored from their encoding. The
// error is an *[UnsupportedError] if the zero value cannot be encoded, because the type itself, a
// field or an array element is a channel, a function or the like. There is no such error if only
// some values cannot be encoded, for example because the channel is behind a pointer or in a slice
// that may be empty. The error is a *[LossError] if any part of a value would lose its content.
func CheckType(t reflect.Type) error {
	if t == nil || holdsNothing(t.Kind()) && !isUnsupported(t.Kind()) && formOf(t) == byKind && readFormOf(t) == byKind {
		return nil
	}
	if problem := unencodable.of(t, findUnencodable); problem != nil {
		return problem
	}
	return asError(losses.of(t, func(t reflect.Type) *LossError { return findLoss(t, true) }))
}

// CheckInput returns a *[LossError] if different values of the type may have the same encoding, and
// therefore the same hash, because a part of them is not encoded.
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
