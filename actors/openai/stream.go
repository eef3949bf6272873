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

// readStream takes the events of a stream until its end. The answer is whole,
// or there is an error.
func (x *exchange) readStream(w wire, a *answer, body io.Reader, silence *silence) error {
	events := newEventReader(body, silence.heard)
	complete, data := false, 0
	for {
		event, isError, err := events.next()
		switch {
		case errors.Is(err, io.EOF) && complete:
			return nil
		case errors.Is(err, io.EOF) && x.foreign:
			return fmt.Errorf("%w (a client given by WithClient does not show what ended it)", errCut)
		case errors.Is(err, io.EOF) && data == 0:
			return x.readWhole(w, a, events.stray, "stream")
		case errors.Is(err, io.EOF):
			return errCut
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

// drainTime is how long a stream that has said its end may take to end.
const drainTime = 50 * time.Millisecond

// drain reads on until the response ends: then net/http uses the connection for
// the next request. One that does not end soon is ended.
func drain(events io.Reader, end func()) {
	timer := time.AfterFunc(drainTime, end)
	defer timer.Stop()
	_, _ = io.CopyN(io.Discard, events, maxFailure) // what is there has no meaning
}

// listError is the error in a list, as Google sends it.
func listError(event []byte) error {
	if e := errorOfBody(event); e.Status != 0 || e.Code+e.Type != "" {
		return e
	}
	return malformed(errors.New("the document: got array, want an object"))
}

// eventError is the error of an event that is called so.
func eventError(event []byte) error {
	e := errorOfBody(event)
	if e.Message == string(event) || e.Message == "" {
		if inner, ok := errorIn(event).(*Error); ok { //nolint:errorlint // errorIn wraps nothing
			return inner
		}
	}
	return e
}

// readWhole takes a reply in one piece, which some services give in place of a
// stream, too. want is what was to come.
func (x *exchange) readWhole(w wire, a *answer, body []byte, want string) error {
	body = bytes.TrimSpace(body)
	switch {
	case len(body) == 0:
		return malformed(fmt.Errorf("the %s is empty", want))
	case body[0] == '[':
		if e := errorOfBody(body); e.Status != 0 || e.Code+e.Type != "" {
			return e // Google's come in a list
		}
	case body[0] != '{':
		return malformed(fmt.Errorf("no %s, but: %s", want, x.brief(body)))
	}
	a.keepReply(body, false)
	complete, err := w.read(a, body)
	switch {
	case errors.Is(err, errNoChoices):
		return fmt.Errorf("%w: %s", err, x.brief(body))
	case err == nil && !complete:
		return errCut
	}
	return err
}

// brief is the beginning of a body, for a message.
func (x *exchange) brief(body []byte) string {
	text := x.redact(string(body[:min(len(body), maxFailure)]))
	return record.Truncate(strings.Join(strings.Fields(text), " "), 200)
}

// silence ends a request that its service leaves without a word for too long.
// A nil silence never does.
type silence struct {
	first, idle time.Duration // limits, 0 for none
	end         context.CancelCauseFunc

	firstTimer, idleTimer *time.Timer
}

// newSilence returns a context for the request that ends with it.
func newSilence(ctx context.Context, first, idle time.Duration) (context.Context, *silence) {
	if first <= 0 && idle <= 0 {
		return ctx, nil
	}
	ctx, end := context.WithCancelCause(ctx)
	s := &silence{first: first, idle: idle, end: end}
	if first > 0 {
		s.firstTimer = time.AfterFunc(first, func() { end(&silenceError{"no part of an answer", first}) })
	}
	if idle > 0 {
		s.idleTimer = time.AfterFunc(idle, func() { end(&silenceError{"nothing", idle}) })
	}
	return ctx, s
}

// heard is called for each line, comments too.
func (s *silence) heard() {
	if s != nil && s.idleTimer != nil {
		s.idleTimer.Reset(s.idle)
	}
}

// said is called for each piece of an answer.
func (s *silence) said() {
	if s != nil && s.firstTimer != nil {
		s.firstTimer.Stop()
	}
}

func (s *silence) stop() {
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

// cause is err, or the silence that it comes from.
func (s *silence) cause(ctx context.Context, err error) error {
	if s == nil || err == nil {
		return err
	}
	var e *silenceError
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return err
}
