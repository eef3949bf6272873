package openai

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/reprise-go/reprise/httperror"
)

// A request in background mode is answered at once, with a response that has not been
// made yet. It has to be asked for until it is there: to fail and to be retried would be to
// begin, and pay for, another.

// How often a response is asked for, and how many failures in a row may keep it from being
// seen.
const (
	firstPoll    = time.Second
	longestPoll  = 10 * time.Second
	pollFailures = 10
)

// pendingError is a response that the service has not made yet.
type pendingError struct{ id, status string }

// Error says in which state the response is.
func (e *pendingError) Error() string {
	return fmt.Sprintf("openai: the response %s is %s", e.id, e.status)
}

// poll asks for a response until it is there, or ctx ends. It returns the last exchange.
func (c *caller) poll(ctx context.Context, w wire, a *answer, id string) (*exchange, error) {
	failures := 0
	delay := firstPoll
	for {
		x := c.newExchange()
		select {
		case <-ctx.Done():
			return x, ctx.Err()
		case <-time.After(delay):
		}
		err := c.send(ctx, x, w, a, id, nil)
		_, isPending := err.(*pendingError) //nolint:errorlint // nothing wraps it
		switch {
		case isPending:
			failures = 0
		case err == nil || ctx.Err() != nil || !isPassing(x.status):
			return x, err
		default:
			if failures++; failures == pollFailures {
				return x, err
			}
		}
		delay = min(2*delay, longestPoll)
		if after, ok := httperror.RetryAfter(x.replied, time.Now()); ok {
			delay = max(delay, after)
		}
	}
}

// isPassing reports whether a failure with the status, 0 for none, says nothing of the response.
func isPassing(status int) bool {
	switch status {
	case 0, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
