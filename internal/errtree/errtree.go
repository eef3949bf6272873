package errtree

// MaxDepth is the maximum number of levels of wrapped errors that [Walk] visits.
const MaxDepth = 10_000

// Walk calls visit with err and all the errors that it wraps, in the order of errors.Is. If errors
// are nested more than MaxDepth levels deep, Walk stops and returns false. (If an error wraps
// itself, errors.Is never returns or overflows the stack.) Walk does not recover from panics in
// visit or in an Unwrap method.
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
