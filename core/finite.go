package core

import "fmt"

// maxWrapped is how deep errors may be wrapped.
const maxWrapped = 10_000

// finite returns err, and another error in its place if err wraps itself: looking
// into such an error, as errors.Is does, never ends, or ends the process.
func finite(err error) error {
	if err == nil || endsWithin(err, maxWrapped) {
		return err
	}
	return fmt.Errorf("the error, a %T, wraps itself, or others more than %d levels deep", err, maxWrapped)
}

// endsWithin reports whether err is wrapped in at most so many levels. An error
// whose methods panic ends there, as it does wherever it is looked into.
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
