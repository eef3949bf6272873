package core

import (
	"strconv"

	"github.com/reprise-go/reprise/record"
)

// questionMark stands before the number of a question in its ID, sleepMark before
// that of a sleep, which is a question that time answers.
const (
	questionMark = "?"
	sleepMark    = "?sleep"
)

// claimQuestion gives a question of the attempt its ID and the next ordinal. It
// returns the suspension to stop with where no question is asked any more: the
// attempt has stopped, or was recorded with something else in this place.
func (s *Scope) claimQuestion(mark string) (id string, claimed *record.Claim, stopped *InterruptedError) {
	inside := s.inner()
	in := &inside.claims
	in.mu.Lock()
	defer in.mu.Unlock()
	if e := s.offPath(); e != nil {
		s.stop(e)
		return "", nil, e
	}
	inside.questions++
	in.ordinal++
	segment := record.QuestionSegment(inside.questions)
	if s.attempt == beforeFirst {
		mark += "pre"
	}
	id = s.call.address.String() + mark + strconv.Itoa(inside.questions)
	if settings := s.root.settings; !settings.Outputs && !settings.Payloads {
		return id, nil, nil
	}
	claimed = &record.Claim{Address: record.Site(s.Path(), segment).Address(1), Ordinal: in.ordinal, Kind: record.KindQuestion}
	if s.root.settings.Restored {
		_, onRecord, err := s.root.run.Claim(s, *claimed, nil)
		if err != nil {
			e := s.interruptionBy(err)
			s.Suspend(e)
			return id, nil, e
		}
		if onRecord {
			return id, nil, nil
		}
	}
	in.take(*claimed)
	return id, claimed, nil
}
