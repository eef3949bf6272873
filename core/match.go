package core

import (
	"errors"

	"github.com/reprise-go/reprise/record"
)

// A Matcher selects errors, for RetryOn and Exclude.
type Matcher func(error) bool

// MatchIs matches errors in which errors.Is finds target. MatchIs(nil) is nil, which
// [RetryConfig.Validate] rejects.
func MatchIs(target error) Matcher {
	if target == nil {
		return nil
	}
	return func(err error) bool { return errors.Is(err, target) }
}

// MatchAs matches errors in which errors.As finds an E.
func MatchAs[E error]() Matcher {
	return func(err error) bool {
		var target E
		return errors.As(err, &target)
	}
}

// MatchClass matches errors of any of the classes.
func MatchClass(classes ...record.Class) Matcher {
	return func(err error) bool {
		class := record.Classify(err)
		for _, c := range classes {
			if c == class {
				return true
			}
		}
		return false
	}
}

// MatchAny matches every error.
func MatchAny() Matcher { return func(error) bool { return true } }

func matchesAny(matchers []Matcher, err error) bool {
	for _, m := range matchers {
		if m(err) {
			return true
		}
	}
	return false
}
