package core

import (
	"strconv"

	"github.com/reprise-go/reprise/record"
)

// claimQuestion gives a question of the attempt its ID and the next ordinal. It
// returns the suspension to stop with where no question is asked any more: the
// attempt has stopped, or was recorded with something else in this place.
func (s *Scope) claimQuestion() (id string, claimed *record.Claim, stopped *InterruptedError) {
	in := s.claims()
	in.mu.Lock()
	defer in.mu.Unlock()
	if e := s.offPath(); e != nil {
		s.stop(e)
		return "", nil, e
	}
	s.questions++
	in.ordinal++
	segment := record.QuestionSegment(s.questions)
	id = s.call.address.String() + segment
	if s.attempt == beforeFirst {
		id = s.call.address.String() + "?pre" + strconv.Itoa(s.questions)
	}
	if settings := s.root.settings; !settings.Outputs && !settings.Payloads {
		return id, nil, nil
	}
	claimed = &record.Claim{Address: record.Site(s.Path(), segment).Address(1), Ordinal: in.ordinal, Kind: record.KindQuestion}
	if s.root.settings.Restored {
		_, onRecord, err := s.root.run.Claim(s, *claimed, nil)
		if err != nil {
			e := s.interruptionBy(err)
			s.stopped.CompareAndSwap(nil, e)
			return id, nil, e
		}
		if onRecord {
			return id, nil, nil
		}
	}
	in.take(*claimed)
	return id, claimed, nil
}
