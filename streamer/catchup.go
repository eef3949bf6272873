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
		pos, oldest, kept := s.run.tape.after(s.at.n)
		switch {
		case !kept || oldest.n == s.at.n+1:
			return pos, nil
		case s.at == before:
			return s.pass(), nil // the source does not have it either
		}
	}
}

// check tells the client to begin anew if its cursor is not of what is kept.
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

// pass tells the client what is lost to it, and returns the position in the
// tape to go on from.
func (s *stream) pass() uint64 {
	pos, oldest, kept := s.run.tape.after(s.at.n)
	if !kept {
		if last := s.run.tape.forgotten(); last.epoch != "" && last.n > s.at.n {
			missed := last.n - s.at.n
			s.at = last
			s.gap(missed)
		}
		return pos
	}
	if missed := oldest.n - 1 - s.at.n; missed > 0 {
		s.at = cursor{oldest.epoch, oldest.n - 1}
		s.gap(missed)
	}
	return pos
}

// replay sends what the source has after the cursor. A cursor that is known to
// be of this run, by the tape, is not reset where the source is behind.
func (s *stream) replay(ctx context.Context, known bool) error {
	openings, epoch, found := []cursor{{epoch: unopened}}, unopened, s.at == (cursor{})
	for rec, err := range s.handler.source.Records(ctx, s.run.id, 0) {
		select {
		case <-s.handler.closing:
			return http.ErrServerClosed
		default:
		}
		if err != nil {
			s.event("unreadable", errorBody{Code: "unreadable", Message: "the records of the run cannot be read"})
			return err
		}
		if opens(&rec) {
			if epoch == s.at.epoch && !found {
				break // it ended before the cursor
			}
			epoch = epochName(rec.Time)
			openings = append(openings, cursor{epoch, rec.Seq})
		}
		if !found && epoch == s.at.epoch && rec.Seq >= s.at.n {
			found = true
			if rec.Seq == s.at.n {
				continue
			}
		}
		if !found {
			continue
		}
		if err := s.send(newFrame(&rec), cursor{epoch, rec.Seq}); err != nil {
			return err
		}
	}
	if !found && !known {
		s.reset("the cursor is of records that this run does not have; it begins anew")
		return s.replay(ctx, false)
	}
	s.run.name(openings)
	return s.flush()
}
