package streamer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// errSlow is the reason for ending the stream of a client that fell behind.
var errSlow = errors.New("streamer: the client fell behind")

// stream is one client's event stream.
type stream struct {
	handler    *Handler
	run        *run // nil in the stream of all runs
	filter     filter
	w          http.ResponseWriter
	control    *http.ResponseController
	timer      *time.Timer  // ends the wait for the next event
	watched    *watchedRuns // the runs whose deltas the client asked for; nil if there are none
	proto      int          // the major version of HTTP
	created    int64        // creation time of the run, see cutCreated; 0 if it is not known
	vocabulary string       // name in Options.Vocabularies; empty for the events of this package

	at      cursor        // the newest event that was sent or filtered out
	sent    cursor        // the newest ID that was sent
	moves   uint64        // number of times that at was moved, forward or back
	out     *bufio.Writer // holds what was written since the last flush; nil if nothing was
	flushed time.Time     // when out was last flushed
}

// untilClosed returns a context that also ends when the handler is closed. The caller must call
// release.
func (h *Handler) untilClosed(ctx context.Context) (_ context.Context, release func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(h.open, func() { cancel(http.ErrServerClosed) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// begin sends the beginning of the stream immediately, so that clients know that they are
// connected.
func (s *stream) begin() {
	header := s.w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("Cache-Control", "no-cache, no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // tells nginx not to buffer
	if s.proto == 1 {
		header.Set("Connection", "close") // some clients read until the connection is closed
	}
	s.w.WriteHeader(http.StatusOK)
	// Clients that were disconnected together should not reconnect at the same moment.
	reconnect := s.handler.options.Reconnect
	reconnect += time.Duration(rand.Int64N(int64(reconnect)/2 + 1))
	_ = s.write(fmt.Appendf(nil, "retry: %d\n", max(1, reconnect.Milliseconds()))) // the next write returns the error
	if s.run != nil {
		_ = s.flush() // a source may be slow; the stream of all runs is flushed once its position is known
	}
}

// serveAll streams the events of all runs after the cursor id, or from now on if id is empty. The
// client may have received only part of the event at the cursor; part says how much.
func (s *stream) serveAll(ctx context.Context, id string, part int) error {
	first, next := s.handler.all.span()
	pos := next
	s.at = cursor{s.handler.generation, pos}
	if id != "" {
		c, ok := parseCursor(id)
		switch {
		case !ok || c.generation != s.handler.generation || c.n > next:
			s.reset("the cursor does not belong to this server's stream; read the runs again")
		case c.n < first:
			pos = first
			s.at = cursor{s.handler.generation, first}
			s.gap(first - c.n)
		default:
			pos = c.n
			s.at = c
			if err := s.sendTranslatedRest(ctx, s.handler.all, part); err != nil {
				return err
			}
		}
	}
	return s.follow(ctx, s.handler.all, pos)
}

// serveRun streams the events of one run after the cursor id, or from its first record on if id is
// empty. The client may have received only part of the event at the cursor; part says how much.
func (s *stream) serveRun(ctx context.Context, id string, part int) error {
	if id != "" {
		if err := s.resume(ctx, id, part); err != nil {
			return err
		}
	}
	for {
		s.created = cmp.Or(s.run.knownCreated(), s.created)
		before, ends := s.moves, s.run.ends.Load()
		pos, where := s.run.tape.locate(s.at)
		oldest, begin, kept := s.run.tape.oldest()
		if s.at == (cursor{}) && kept && oldest.id.n == 1 {
			pos, where = begin, placeFound
		}
		if where != placeFound {
			var err error
			if pos, err = s.catchUp(ctx, where); err != nil {
				return err
			}
		}
		if s.run.ends.Load() != ends { // the run was deleted while its records were read
			s.deleted()
			continue
		}
		// Look for missing events again only if this round has made progress. Otherwise, the client
		// must reconnect.
		if err := s.follow(ctx, s.run.tape, pos); !errors.Is(err, errHole) || s.moves == before && s.at != (cursor{}) {
			return err
		}
	}
}

// resume continues after the event with the given ID. If the ID belongs to another run that had the
// same run ID, the stream starts from the beginning.
func (s *stream) resume(ctx context.Context, id string, part int) error {
	created, id := cutCreated(id)
	now := created
	var err error
	if created != 0 {
		now, err = s.handler.createdOf(ctx, s.run)
	}
	var ok bool
	switch s.at, ok = parseCursor(id); {
	case errors.Is(err, ErrNotFound):
		s.deleted()
	case !ok:
		s.reset("the cursor belongs to another run; the stream begins again")
	case s.at.n == 0:
		s.at = cursor{} // the ID of a reset
	case now != 0 && created != now:
		s.reset(anotherRun)
	default:
		s.created = created
		return s.sendTranslatedRest(ctx, s.run.tape, part)
	}
	return nil
}

const anotherRun = "another run has this ID now"

// errHole reports that events are missing from the tape because the publisher did not publish them.
var errHole = errors.New("streamer: events are missing")

// follow sends the events on the tape from position pos on, and then new events as they arrive.
func (s *stream) follow(ctx context.Context, t *tape, pos uint64) error {
	var batch [8]entry // small, because it is on the stack of every waiting client
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n, ok := t.read(pos, batch[:])
		if !ok {
			return errSlow // the client reconnects with its cursor
		}
		for i := range batch[:n] {
			e := &batch[i]
			if e.frame == deletedFrame {
				s.deleted()
				return errHole
			}
			if e.frame == restartedFrame {
				s.reset(anotherRun)
				return errHole
			}
			if s.run != nil && e.id.n > 0 {
				switch {
				case e.id.generation < s.at.generation:
					continue // the record was lost in a crash
				case e.id.generation > s.at.generation && e.id.n <= s.at.n:
					s.reset("the run was opened again without records that a crash has lost; its stream begins again")
					return errHole
				case e.id.n <= s.at.n:
					continue // the client has already received it from the source
				case e.id.n > s.at.n+1:
					return errHole
				}
			}
			if err := s.send(e.frame, e.id); err != nil {
				return err
			}
		}
		clear(batch[:n])
		pos += uint64(n)
		if time.Since(s.flushed) >= s.handler.options.Heartbeat { // no event was selected
			if err := s.heartbeat(); err != nil {
				return err
			}
		}
		if n == len(batch) {
			continue
		}
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.wait(ctx, t, pos); err != nil {
			return err
		}
	}
}

// wait returns when there may be records to send. Until then, it sends deltas.
func (s *stream) wait(ctx context.Context, t *tape, pos uint64) error {
	for {
		more, due := t.more(pos)
		if more == nil {
			return nil
		}
		if due {
			s.handler.notifyLater(t)
		}
		if err := s.sayElsewhere(ctx); err != nil {
			return err
		}
		fresh, pause, err := s.sendDeltas()
		if err != nil {
			return err
		}
		s.timer.Reset(min(s.handler.options.Heartbeat-time.Since(s.flushed), pause))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-s.handler.closing:
			return http.ErrServerClosed
		case <-more:
			return nil
		case <-fresh:
			return nil // records come before deltas
		case <-s.timer.C:
			if time.Since(s.flushed) < s.handler.options.Heartbeat {
				return nil // deltas may be sent again
			}
			if err := s.heartbeat(); err != nil {
				return err
			}
		}
	}
}
