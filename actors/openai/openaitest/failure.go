package openaitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

// Failure returns a step that answers with an HTTP status and an error body like
// OpenAI's, with the type and code that OpenAI uses for the status. It panics unless
// status is between 400 and 599.
func Failure(status int, message string) Step {
	if status < 400 || status > 599 {
		panic(fmt.Sprintf("openaitest: Failure(%d, …): the status must be 400 to 599", status))
	}
	f := failure{status: status, Message: message, Type: "invalid_request_error"}
	switch {
	case status == http.StatusUnauthorized:
		f.code("invalid_api_key")
	case status == http.StatusNotFound:
		f.code("model_not_found")
	case status == http.StatusTooManyRequests:
		f.Type = "requests"
		f.code("rate_limit_exceeded")
	case status >= 500:
		f.Type = "server_error"
	}
	return Step{player: f}
}

// WithErrorCode returns a copy of a Failure or RateLimited step with another error code. For
// example, "insufficient_quota" makes a 429 error permanent. It panics for other steps.
func (st Step) WithErrorCode(code string) Step {
	f, ok := st.player.(failure)
	if !ok {
		panic(fmt.Sprintf("openaitest: WithErrorCode on a step that is not a failure: %s", st))
	}
	f.code(code)
	st.player = f
	return st
}

// RateLimited returns a step that answers with status 429 and a header that states when to try
// again: Retry-After if retryAfter is a whole number of seconds; otherwise Retry-After-Ms, in
// milliseconds, rounded up. A negative time counts as 0. To send another header, or none, use
// Failure and WithHeader.
func RateLimited(retryAfter time.Duration) Step {
	header, unit := "Retry-After", time.Second
	if retryAfter > 0 && retryAfter%time.Second != 0 {
		header, unit = "Retry-After-Ms", time.Millisecond
	}
	value := roundUp(retryAfter, unit)
	message := fmt.Sprintf("Rate limit reached. %s: %s.", header, value)
	return Failure(http.StatusTooManyRequests, message).WithHeader(header, value)
}

func roundUp(d, unit time.Duration) string {
	return strconv.FormatInt(int64((max(d, 0)+unit-1)/unit), 10)
}

// failure is an error body like OpenAI's.
type failure struct {
	status  int
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    *string `json:"code"`
}

func (f *failure) code(code string) { f.Code = &code }

func (f failure) play(x *exchange) {
	body, err := json.Marshal(struct {
		Error failure `json:"error"`
	}{f})
	if err != nil {
		panic(err) // Cannot happen: it contains only strings.
	}
	x.write(f.status, body)
}

func (f failure) String() string {
	return fmt.Sprintf("status %d: %s", f.status, short(f.Message))
}

// Raw returns a step that answers with the given status and body, such as the HTML page
// of a gateway, malformed JSON, or the events of a stream. The content type is JSON unless
// WithHeader sets it. It panics unless status is between 200 and 599.
func Raw(status int, body string) Step {
	if status < 200 || status > 599 {
		panic(fmt.Sprintf("openaitest: Raw(%d, …): the status must be 200 to 599", status))
	}
	return Step{player: raw{status, body}}
}

type raw struct {
	status int
	body   string
}

func (r raw) play(x *exchange) { x.write(r.status, []byte(r.body)) }
func (r raw) String() string   { return fmt.Sprintf("raw status %d: %s", r.status, short(r.body)) }
