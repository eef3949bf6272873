package openai

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// readStream processes the events of a stream until the stream ends. It returns an error unless the
// answer is complete.
func (x *exchange) readStream(w wire, a *answer, body io.Reader, watchdog *watchdog) error {
	events := newEventReader(body, watchdog.received)
	complete, data := false, 0
	for {
		event, isError, err := events.next()
		switch {
		case errors.Is(err, io.EOF) && complete:
			return nil
		case err != nil && complete:
			// The service stalled or the connection broke. The answer is paid for and complete;
			// only the usage may be missing.
			a.usage = estimate(x.body, a)
			return nil
		case errors.Is(err, io.EOF) && x.external:
			return fmt.Errorf("%w (a client passed to WithClient does not report why)", errTruncated)
		case errors.Is(err, io.EOF) && data == 0:
			return x.readWhole(w, a, events.stray, "stream")
		case errors.Is(err, io.EOF):
			return errTruncated
		case err != nil:
			return err
		case isError:
			return eventError(event)
		}
		data++
		a.keepReply(event, true)
		if event[0] == '[' && !isDone(event) {
			return listError(event)
		}
		done, err := w.event(a, event)
		complete = complete || done
		switch {
		case errors.Is(err, errDone) && complete:
			return nil
		case errors.Is(err, errDone):
			return errNoChoices
		case err != nil:
			return err
		}
	}
}

// drainTime is how long a stream may take to end after its last event.
const drainTime = 50 * time.Millisecond

// drain reads to the end of the response so that net/http can reuse the connection. It cancels a
// response that does not end soon.
func drain(events io.Reader, end func()) {
	timer := time.AfterFunc(drainTime, end)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, events, maxFailure) // the rest is ignored
}

// listError returns the error contained in a JSON array, which is how Google sends errors.
func listError(event []byte) error {
	if e := errorOfBody(event); e.Status != 0 || e.Code+e.Type != "" {
		return e
	}
	return malformed(errors.New("the document: got array, want an object"))
}

// eventError returns the error in an event named "error".
func eventError(event []byte) error {
	e := errorOfBody(event)
	if e.Message == string(event) || e.Message == "" {
		if inner, ok := errorIn(event).(*Error); ok { //nolint:errorlint // errorIn does not wrap errors
			return inner
		}
	}
	return e
}

// readWhole processes a reply that is not a stream. Some services send such a reply even if a
// stream was requested. want names what was expected.
func (x *exchange) readWhole(w wire, a *answer, body []byte, want string) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return malformed(fmt.Errorf("the %s is empty", want))
	case body[0] == '[':
		if e := errorOfBody(body); e.Status != 0 || e.Code+e.Type != "" {
			return e // Google sends errors in a list
		}
	case body[0] != '{':
		return malformed(fmt.Errorf("want %s, got: %s", want, x.excerpt(body)))
	}
	a.keepReply(body, false)
	complete, err := w.read(a, body)
	switch {
	case errors.Is(err, errNoChoices):
		return fmt.Errorf("%w: %s", err, x.excerpt(body))
	case err == nil && !complete:
		return errTruncated
	}
	return err
}

// excerpt returns the beginning of a body, redacted and on one line, for an error message.
func (x *exchange) excerpt(body []byte) string {
	text := x.redact(string(body[:min(len(body), maxFailure)]))
	return record.Truncate(strings.Join(strings.Fields(text), " "), 200)
}

// A watchdog cancels a request if the service sends nothing for too long. A nil
// watchdog does nothing.
type watchdog struct {
	first, idle time.Duration // limits; 0 if there is no limit
	end         context.CancelCauseFunc

	firstTimer, idleTimer *time.Timer
}

// newWatchdog returns a watchdog and the context that it cancels.
func newWatchdog(ctx context.Context, first, idle time.Duration) (context.Context, *watchdog) {
	if first <= 0 && idle <= 0 {
		return ctx, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	s := &watchdog{first: first, idle: idle, end: end}
	if first > 0 {
		s.firstTimer = time.AfterFunc(first, func() { end(&stallError{"no part of an answer", first}) })
	}
	if idle > 0 {
		s.idleTimer = time.AfterFunc(idle, func() { end(&stallError{"nothing", idle}) })
	}
	return ctx, s
}

// received is called whenever data is received, even if it is only a comment.
func (s *watchdog) received() {
	if s != nil && s.idleTimer != nil {
		s.idleTimer.Reset(s.idle)
	}
}

// answered is called for each piece of an answer.
func (s *watchdog) answered() {
	if s != nil && s.firstTimer != nil {
		s.firstTimer.Stop()
	}
}

func (s *watchdog) stop() {
	if s == nil {
		return
	}
	for _, timer := range []*time.Timer{s.firstTimer, s.idleTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
	s.end(nil)
}

// cause returns the timeout that caused err, or err itself if there was no timeout.
func (s *watchdog) cause(ctx context.Context, err error) error {
	if s == nil || err == nil {
		return err
	}
	var e *stallError
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return err
}
