package streamer

import (
	"context"
	"net/http"
)

// catchUp sends what the tape does not have after the cursor, and returns the
// position in the tape to go on from.
func (s *stream) catchUp(ctx context.Context, where place) (pos uint64, err error) {
	if s.handler.source == nil {
		s.check(where)
		return s.pass(), nil
	}
	for {
		before := s.at
		if err := s.replay(ctx, where == placeOlder); err != nil {
			return 0, err
		}
		// What was published meanwhile may have been in the source too, and is
		// known by its number.
		pos, next, kept := s.run.tape.after(s.at)
		switch {
		case !kept || next.n == s.at.n+1:
			return pos, nil
		case s.at == before:
			return s.pass(), nil // the source does not have it either
		}
	}
}

// check makes the client begin anew if its cursor is not of what was kept.
func (s *stream) check(where place) {
	if s.at == (cursor{}) || where == placeOlder {
		return
	}
	if _, _, kept := s.run.tape.oldest(); !kept {
		s.reset("nothing of this run is kept; it begins anew")
		return
	}
	s.reset("the cursor is not of what is kept of this run; it begins anew")
}

// pass reports what is lost to the client, and returns the position in the tape
// to go on from.
func (s *stream) pass() uint64 {
	pos, next, kept := s.run.tape.after(s.at)
	if !kept {
		if last := s.run.tape.forgotten(); last.n > s.at.n {
			missed := last.n - s.at.n
			s.at = last
			s.gap(missed)
		}
		return pos
	}
	if missed := next.n - 1 - s.at.n; missed > 0 {
		s.at = cursor{next.generation, next.n - 1}
		s.gap(missed)
	}
	return pos
}

// replay sends what the source has after the cursor. To know whether the cursor
// is of this run, it reads the cursor's own record too. If that is known, by
// the tape, a source that is behind is no reason for a reset.
func (s *stream) replay(ctx context.Context, known bool) error {
	found := s.at.n == 0
	for rec, err := range s.handler.source.Records(ctx, s.run.id, max(s.at.n, 1)-1) {
		select {
		case <-s.handler.closing:
			return http.ErrServerClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if err != nil {
			s.event("unreadable", errorBody{Code: "unreadable", Message: "the records of the run cannot be read"})
			return err
		}
		id := cursorOf(&rec)
		if !found {
			if id != s.at {
				break
			}
			found = true
			continue
		}
		if err := s.send(s.handler.newFrame(&rec), id); err != nil {
			return err
		}
	}
	if !found && !known {
		s.reset("the cursor is of records that this run does not have; it begins anew")
		return s.replay(ctx, false)
	}
	return s.flush()
}
