package openai

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/reprise-go/reprise/record"
)

// readStream takes the events of a stream until its end. The answer is whole,
// or there is an error.
func (x *exchange) readStream(w wire, a *answer, silence *silence) error {
	events := newEventReader(x.events, silence.heard)
	complete, data := false, 0
	for {
		event, isError, err := events.next()
		switch {
		case errors.Is(err, io.EOF) && complete:
			return nil
		case errors.Is(err, io.EOF) && data == 0:
			return x.readStray(w, a, events.stray)
		case errors.Is(err, io.EOF):
			return errCut
		case err != nil:
			return err
		case isError:
			return eventError(event)
		}
		data++
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

// readStray is for a reply that was to be a stream and is none: some services
// answer in one piece, or with an error.
func (x *exchange) readStray(w wire, a *answer, body []byte) error {
	text := strings.TrimSpace(x.redact(string(body)))
	switch {
	case text == "":
		return malformed(errors.New("the stream is empty"))
	case !strings.HasPrefix(text, "{") && !strings.HasPrefix(text, "["):
		return malformed(errors.New("no stream, but: " + record.Truncate(strings.Join(strings.Fields(text), " "), 200)))
	}
	if e := errorOfBody([]byte(text)); strings.HasPrefix(text, "[") || e.Code+e.Type != "" {
		return e
	}
	complete, err := w.read(a, []byte(text))
	if err == nil && !complete {
		err = errCut
	}
	return err
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
