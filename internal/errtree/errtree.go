package errtree

// MaxDepth is the number of levels to which errors may be wrapped.
const MaxDepth = 10_000

// Walk calls visit with err and with all errors that it wraps, in the order of
// errors.Is. It reports false, and ends, at an error that is wrapped in more than
// MaxDepth others: errors.Is would never return for one that wraps itself, or end
// the process. A panic of a method Unwrap, or of visit, is passed on.
func Walk(err error, visit func(error)) (ends bool) { return walk(err, MaxDepth, visit) }

func walk(err error, levels int, visit func(error)) (ends bool) {
	for ; err != nil; levels-- {
		if levels == 0 {
			return false
		}
		visit(err)
		switch wrapper := err.(type) { //nolint:errorlint // each level by itself
		case interface{ Unwrap() error }:
			err = wrapper.Unwrap()
		case interface{ Unwrap() []error }:
			for _, inner := range wrapper.Unwrap() {
				if !walk(inner, levels-1, visit) {
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
