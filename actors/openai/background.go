package openai

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
)

// In background mode, the service replies to a request at once, with a response that is not
// complete yet. The response has to be polled until it is complete. If the attempt failed and were
// retried instead, a second response would be created and charged. If the process ends during
// polling, the attempt is made again, and needs the ID of the response that was already created.

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

// createStep is the name of the step that creates a response in background mode.
const createStep = "create response"

// isBackground reports whether a request is in background mode.
func isBackground(w wire, req *actors.Request) bool {
	_, ok := w.(responsesWire)
	return ok && req.Options.ExtraBody["background"] == true
}

// inBackground creates a response in background mode and polls it until it is complete.
// The step that creates the response records its ID. inBackground returns the last
// exchange.
func (c *caller) inBackground(ctx context.Context, x *exchange, w wire, a *answer, name string) (*exchange, error) {
	var sent bool
	var failure error // has the type that explain needs, unlike the error that the step returns
	id, err := core.Step(ctx, createStep, func(ctx context.Context) (string, error) {
		sent, failure = true, c.send(ctx, x, w, a, name, nil)
		if pending := (*pendingError)(nil); errors.As(failure, &pending) {
			failure = nil
			return pending.id, nil
		}
		if failure != nil {
			return "", x.explain(ctx, failure)
		}
		return a.id, nil
	})
	switch {
	case core.IsSuspension(err):
		return x, err
	case failure != nil:
		return x, failure
	case err != nil:
		x.hint = "" // the recorded error already contains the hint
		return x, err
	case sent && a.finish != "":
		return x, nil // the response was complete at once
	case id == "": // the response was complete at once but has no ID, so the answer is lost
		return x, c.send(ctx, x, w, a, name, nil)
	}
	return c.poll(ctx, w, a, id)
}

// poll requests a response repeatedly until it is complete or ctx ends. It returns the last
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
		if after, ok := httperror.RetryAfter(x.responseHeader, time.Now()); ok {
			delay = max(delay, after)
		}
	}
}

// isTemporary reports whether a failure with the given status (0 if there is
// none) is temporary and unrelated to the response.
func isTemporary(status int) bool {
	switch status {
	case 0, http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}
