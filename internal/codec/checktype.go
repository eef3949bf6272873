package codec

import (
	"errors"
	"reflect"
	"sync"
)

// unencodable caches, by type, what keeps every value of the type from being
// encoded. The answer for a type never changes.
var unencodable sync.Map // reflect.Type → *UnsupportedError, nil for none

// CheckType returns an *[UnsupportedError] if the zero value of the type cannot
// be encoded: a channel, a function or the like, as the type itself, a field or
// an element of an array. Where it depends on the value, as behind a pointer or
// in a slice, which may be empty, there is no error.
func CheckType(t reflect.Type) error {
	if t == nil || holdsNothing(t.Kind()) && !isUnsupported(t.Kind()) {
		return nil
	}
	known, ok := unencodable.Load(t)
	if !ok {
		var problem *UnsupportedError
		_, err := Encode(reflect.Zero(t).Interface())
		errors.As(err, &problem)
		known, _ = unencodable.LoadOrStore(t, problem)
	}
	if problem := known.(*UnsupportedError); problem != nil {
		return problem
	}
	return nil
}
