package streamer

import (
	"context"
	"errors"
	"net/http"
)

// catchUp sends the events after the cursor that are not on the tape, and returns the
// position on the tape from which to continue.
func (s *stream) catchUp(ctx context.Context, where place) (pos uint64, err error) {
	if s.handler.source == nil {
		s.resetIfUnknown(where)
		return s.reportLost(), nil
	}
	for {
		before := s.at
		if err := s.replay(ctx, where == placeOlder); err != nil {
			return 0, err
		}
		// Events published in the meantime may also have been read from the source. Such duplicates
		// are detected by their numbers.
		pos, next, kept := s.run.tape.after(s.at)
		switch {
		case !kept || next.n == s.at.n+1:
			return pos, nil
		case s.at == before:
			return s.reportLost(), nil // the source does not have the missing events either
		}
	}
}

// resetIfUnknown resets the client if its cursor does not belong to the events on the tape.
func (s *stream) resetIfUnknown(where place) {
	if s.at == (cursor{}) || where == placeOlder {
		return
	}
	if _, _, kept := s.run.tape.oldest(); !kept {
		s.reset("no records of this run are kept; its stream begins again")
		return
	}
	s.reset("the cursor does not belong to the kept records of this run; its stream begins again")
}

// reportLost tells the client how many events it has missed for good, and returns the position on
// the tape from which to continue.
func (s *stream) reportLost() uint64 {
	pos, next, kept := s.run.tape.after(s.at)
	if !kept {
		if last := s.run.tape.lastForgotten(); last.n > s.at.n {
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

// replay sends the events after the cursor from the source. It also reads the record at the cursor
// to find out whether the cursor belongs to this run. If known is true, the tape has already shown
// that it does. In that case, the client is not reset if the source does not contain the record
// yet.
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
		if errors.Is(err, ErrNotFound) && s.at == (cursor{}) {
			return s.flush() // the run does not exist yet
		}
		if err != nil {
			s.event("unreadable", errorBody{Code: "unreadable", Message: "the records of the run cannot be read"})
			return err
		}
		id := cursorOf(&rec)
		if id.n == 1 {
			s.created = rec.Time.UnixMicro()
		}
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
		s.reset("the cursor belongs to records that this run does not have; its stream begins again")
		return s.replay(ctx, false)
	}
	return s.flush()
}
