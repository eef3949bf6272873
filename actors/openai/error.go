package openai

import (
	"fmt"
	"net/http"
	"strings"

	goopenai "github.com/sashabaranov/go-openai"

	"github.com/reprise-go/reprise/core"
)

// An Error is a failure that the service reported. Its texts, and those of
// the error that it wraps, do not show the API key that was sent.
type Error struct {
	Status    int    // of the HTTP response, 400 or more
	Type      string // such as "invalid_request_error"; empty if the service named none
	Code      string // such as "rate_limit_exceeded"; empty if the service named none
	Message   string // in the words of the service
	RequestID string // by which the service's support finds the request; empty if there is none

	Err error // *goopenai.APIError, or *goopenai.RequestError for a body of another form
}

// Error is a line such as `openai: status 429, type requests, code
// rate_limit_exceeded, request req_1: Rate limit reached`.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "openai: status %d", e.Status)
	for _, part := range [...]struct{ name, value string }{
		{"type", e.Type}, {"code", e.Code}, {"request", e.RequestID},
	} {
		if part.value != "" {
			fmt.Fprintf(&b, ", %s %s", part.name, part.value)
		}
	}
	if e.Message != "" {
		b.WriteString(": ")
		b.WriteString(e.Message)
	}
	return b.String()
}

// Unwrap returns go-openai's error.
func (e *Error) Unwrap() error { return e.Err }

// HTTPStatusCode is the status, for [core.Classify].
func (e *Error) HTTPStatusCode() int { return e.Status }

// judge marks e where the service knows better than its status says whether
// to try again.
func judge(e *Error, header http.Header) error {
	shouldRetry := header.Get("X-Should-Retry")
	switch {
	case shouldRetry == "false", unpaid(e.Code), unpaid(e.Type):
		return core.Permanent(e)
	case shouldRetry == "true":
		return core.Retryable(e)
	}
	return e
}

// unpaid reports whether a 429 is about money: no wait mends it.
func unpaid(code string) bool {
	return code == "insufficient_quota" || code == "billing_not_active"
}

func ofAPI(err *goopenai.APIError) *Error {
	e := &Error{Status: err.HTTPStatusCode, Type: err.Type, Message: err.Message, Err: err}
	if err.Code != nil {
		e.Code = fmt.Sprint(err.Code)
	}
	return e
}

// ofBody is for a body that is not the API's, such as the page of a gateway.
func ofBody(err *goopenai.RequestError) *Error {
	words := strings.Join(strings.Fields(string(err.Body)), " ")
	return &Error{Status: err.HTTPStatusCode, Message: core.Truncate(words, 200), Err: err}
}

// connectionError is a connection that ended before its response had come,
// where core cannot see it.
type connectionError struct{ error }

func (e *connectionError) Unwrap() error     { return e.error }
func (e *connectionError) Class() core.Class { return core.ClassConnection }
