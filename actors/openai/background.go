package openai

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/reprise-go/reprise/core/httperror"
)

// In background mode the service replies to a request at once, with a response that is
// not complete yet. The response has to be polled until it is complete. If the attempt
// failed and were retried instead, a second response would be created and charged.

// The polling intervals, and the maximum number of consecutive failures.
const (
	firstPoll    = time.Second
	maxPoll      = 10 * time.Second
	pollFailures = 10
)

// A pendingError reports a response that is not complete yet.
type pendingError struct{ id, status string }

// Error returns a message with the status of the response.
func (e *pendingError) Error() string {
	return fmt.Sprintf("openai: response %s is %s", e.id, e.status)
}

// poll requests a response until it is complete or ctx ends. It returns the last
// exchange.
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
		_, isPending := err.(*pendingError) //nolint:errorlint // never wrapped
		switch {
		case isPending:
			failures = 0
		case err == nil || ctx.Err() != nil || !isTemporary(x.status):
			return x, err
		default:
			if failures++; failures == pollFailures {
				return x, err
			}
		}
		delay = min(2*delay, maxPoll)
		if after, ok := httperror.RetryAfter(x.replied, time.Now()); ok {
			delay = max(delay, after)
		}
	}
}

// isTemporary reports whether a failure with the given status, or 0 for none, is
// temporary and unrelated to the response.
func isTemporary(status int) bool {
	switch status {
	case 0, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
