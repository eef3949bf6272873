// Package condition compiles retry conditions from text. They are used for the fields RetryWhen and
// StopWhen of [core.RetryConfig]:
//
//	flaky, err := condition.Compile("status_code >= 500 or error contains 'timeout'")
//	cfg := core.RetryConfig{RetryWhen: flaky.Holds}
//
// A condition is an expression in the language of github.com/expr-lang/expr, restricted to
// literals, the names below, members (result.items[0].id), comparisons, and, or, not, in, contains,
// startsWith, endsWith, matches with a literal pattern, arithmetic, ??, ?:, and the functions len,
// lower and upper. There are no loops, method calls or variables. The time to evaluate a condition
// depends only on the lengths of the condition and of the values. A condition can access no values
// other than these:
//
//	result        the output of the attempt, with the field names of its JSON form
//	data          the member data of the result, or the result itself if it has none
//	status_code   the status of the HTTP response in the error, or the member status_code of the result
//	error         the text of the error
//	success       true unless there is an error or the member success of the result is false
//	attempt       the number of the attempt, from 1
//	execution_id  the ID of the run
//	node_id       the address of the call
//
// A name that has no value for an attempt is missing. A comparison with a missing value is false,
// and so is a comparison of incompatible values, such as a string and a number. A missing value is
// equal only to None (or nil). Arithmetic with a missing value yields a missing value.
//
// NoETL syntax is also accepted: {{ … }} around the expression, None, True and False, and 'text' in
// error, which means error contains 'text'.
//
// [core.RetryConfig]: https://pkg.go.dev/github.com/reprise-go/reprise/core#RetryConfig
package condition
