package httperror

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// An Error is a response with a status outside of 200 to 299.
type Error struct {
	Code    int           // such as 503
	After   time.Duration // of the Retry-After header; 0 for none
	Excerpt string        // the beginning of the body, on one line
}

// excerptLimit is the length of an excerpt in bytes.
const excerptLimit = 300

// Check returns nil for a response with a status of 200 to 299, and an
// *[Error] for every other. It reads the beginning of the body for the error;
// the caller closes the body.
func Check(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	e := &Error{Code: resp.StatusCode}
	e.After, _ = RetryAfter(resp.Header, time.Now())
	if resp.Body != nil {
		// If the body breaks off, what was read is still an excerpt, and the status is known.
		body, _ := io.ReadAll(io.LimitReader(resp.Body, excerptLimit))
		e.Excerpt = strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "")), " ")
	}
	return e
}

// Error returns a line such as "503 Service Unavailable: overloaded".
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Code, http.StatusText(e.Code))
	if e.Excerpt != "" {
		text += ": " + e.Excerpt
	}
	return text
}

// StatusCode returns the status code, for record.Classify.
func (e *Error) StatusCode() int { return e.Code }

// RetryAfter returns the delay that the service asked for, or 0. core.RetryAfter
// finds it.
func (e *Error) RetryAfter() time.Duration { return e.After }

// The registration makes errors.As find an *Error in the recorded errors of calls, too.
func init() {
	record.RegisterErrorType[*Error]("httperror.Error")
}
