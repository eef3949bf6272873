// Package condition compiles the conditions of a retry configuration from text,
// for [core.RetryConfig] fields RetryWhen and StopWhen:
//
//	flaky, err := condition.Compile("status_code >= 500 or error contains 'timeout'")
//	cfg := core.RetryConfig{RetryWhen: flaky.Holds}
//
// A condition is an expression in the language of github.com/expr-lang/expr,
// restricted to literals, the names below, members (result.items[0].id),
// comparisons, and, or, not, in, contains, startsWith, endsWith, matches with a
// literal pattern, arithmetic, ??, ?:, and the functions len, lower and upper.
// There are no loops, method calls or variables: the time of an evaluation depends only
// on the length of the condition and of the values, and a condition can access only these
// values.
//
//	result        the output of the attempt, by the names in its JSON
//	data          the member data of the result, or the result if it has none
//	status_code   of the HTTP response in the error, or the member of the result
//	error         the text of the error
//	success       no error, and no member success of the result that is false
//	attempt       the number of the attempt, from 1
//	execution_id  the ID of the run
//	node_id       the address of the call
//
// A value that an attempt does not have is missing. A comparison with a missing value is
// false, and so is a comparison of values that cannot be compared, such as a text with a
// number; a missing value is equal only to None (or nil). Arithmetic with a missing value
// is missing.
//
// The form of NoETL is accepted, too: {{ … }} around the expression, None, True
// and False, and 'text' in error for error contains 'text'.
//
// [core.RetryConfig]: https://pkg.go.dev/github.com/reprise-go/reprise/core#RetryConfig
package condition
