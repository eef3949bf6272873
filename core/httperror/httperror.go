package httperror

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// An Error describes a response with a status outside 200 to 299.
type Error struct {
	Code    int           // such as 503
	After   time.Duration // from the header Retry-After; 0 if there is none
	Excerpt string        // the beginning of the body, as a single line
}

// excerptLimit is the maximum length of an excerpt in bytes.
const excerptLimit = 300

// Check returns nil if the status of resp is 200 to 299, and an *[Error] otherwise. For the error,
// Check reads the beginning of the body. The caller must close the body.
func Check(resp *http.Response) error {
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return nil
	}
	e := &Error{Code: resp.StatusCode}
	e.After, _ = RetryAfter(resp.Header, time.Now())
	if resp.Body != nil {
		// If reading fails, the part of the body that was read still serves as the excerpt.
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

// StatusCode returns the status code, for use by record.Classify.
func (e *Error) StatusCode() int { return e.Code }

// RetryAfter returns the delay that the service requested, or 0. It is for use by core.RetryAfter.
func (e *Error) RetryAfter() time.Duration { return e.After }

// The registration lets errors.As find an *Error in an error that was read from a record, too.
func init() {
	record.RegisterErrorType[*Error]("httperror.Error")
}
