package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/internal/segment"
	"github.com/reprise-go/reprise/record"
)

// ErrAwaiting is core.ErrAwaiting.
var ErrAwaiting = errors.New("awaiting an answer")

// Question is a core.Question.
type Question struct {
	ID, Text string
	Awaits   record.AwaitKind
	Due      time.Time
	Refused  string
	Schema   json.RawMessage
	InDoubt  *record.CallInDoubt
}

// A DefaultAnswer is the answer to a question that nobody answers in time. The zero value means
// that there is no default.
type DefaultAnswer struct {
	After   time.Duration // counted from when the question was asked
	Encoded []byte
}

// CanAsk reports whether ctx belongs to a call in a run, which can ask questions.
func CanAsk(ctx context.Context) bool {
	s := scopeInRun(ctx)
	return s != nil && s.call != nil
}

// Await asks a question on behalf of the call to which ctx belongs, and gives the question its ID.
// It passes the answer to take, which returns an error if the answer does not fit. If there is no
// fitting answer, Await suspends the call and returns an *InterruptedError.
func Await(ctx context.Context, q Question, def DefaultAnswer, take func(encoded []byte) error) error {
	s := scopeInRun(ctx)
	mark := segment.QuestionMark
	if q.Awaits == record.AwaitTime {
		mark = segment.SleepMark
	}
	id, claimed, suspended := s.claimQuestion(mark)
	if suspended != nil {
		return suspended
	}
	q.ID = id
	suspended, err := s.ask(ctx, q, def, claimed, take)
	if suspended != nil {
		s.Suspend(suspended)
		return suspended
	}
	return err
}

// errInMemory is the cause given for a wait that cannot end.
var errInMemory = fmt.Errorf("%w: a run in memory cannot be continued after an answer; keep it in a store, with state.Open", ErrAwaiting)

// ask passes the answer to take, which returns an error if the answer does not fit. If there is no
// fitting answer, ask returns the suspension with which to stop. claimed is the claim of the
// question, or nil if it is not the handler that asks.
func (s *Scope) ask(ctx context.Context, q Question, def DefaultAnswer, claimed *record.Claim, take func(encoded []byte) error) (*InterruptedError, error) {
	e := &InterruptedError{Reason: record.InterruptAwait, Message: q.Text, Question: q.ID, Awaits: q.Awaits, Cause: ErrAwaiting}
	for {
		var listed []record.Claim
		if claimed != nil {
			listed = s.claims().upTo(claimed.Ordinal)
		}
		asked, err := s.root.run.Ask(s, q, def, listed)
		if asked.Recorded && claimed != nil {
			s.claims().drop(claimed.Ordinal)
			claimed = nil
		}
		stopped, isStopped := err.(*InterruptedError) //nolint:errorlint // the run itself has stopped
		switch {
		case isStopped:
			return stopped, nil
		case err != nil:
			return nil, err
		case asked.Ended != nil:
			return nil, asked.Ended
		case asked.Answer != nil:
		case q.Awaits == record.AwaitTime && s.sleepsHere(ctx, asked.Due):
			if e, err := s.sleep(ctx, q.ID, asked.Due); e != nil || err != nil {
				return e, err
			}
			continue
		default:
			if asked.InMemory {
				e.Cause = errInMemory
			}
			return e, nil
		}
		encoded := asked.Answer
		unfit := take(encoded)
		if unfit == nil {
			return nil, nil
		}
		q.Refused = fmt.Sprintf("the answer %s does not fit: %v", record.Preview(encoded), unfit)
		e.Cause = fmt.Errorf("%w again: %s", ErrAwaiting, q.Refused)
	}
}
