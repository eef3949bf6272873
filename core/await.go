package core

import (
	"context"
	"errors"
	"fmt"
)

// ErrAwaiting is found by errors.Is in the [InterruptedError] of a call that
// waits for an answer. Such a call is suspended, as an interrupted one is.
var ErrAwaiting = errors.New("awaiting an answer")

// A Question is what a call waits to be told.
type Question struct {
	ID   string // the address of the call, "?" and a number: "assistant/refund?1"
	Text string
}

// Await returns the answer to a question to somebody outside the run, such as
// a human. Without one the call is suspended: Await returns an
// *[InterruptedError], which the handler returns in turn, and the run is
// paused. When it is resumed with an answer, the handler is entered again and
// Await returns that. What comes before in the handler runs again, unless it
// is a call or a step.
//
// Questions are numbered within an attempt, and within each branch of a group,
// so that a retry does not ask again. Waiting counts against no timeout. Outside a run it is [ErrNoRun]. An
// answer that does not fit T is an error that names the question.
func Await[T any](ctx context.Context, question string) (T, error) {
	var answer T
	s := scopeOf(ctx)
	if s == nil || s.call.parent == nil {
		return answer, ErrNoRun
	}
	asker, ok := s.call.run.(interface {
		Ask(s *Scope, q Question) (answer []byte, ok bool, err error)
	})
	if !ok {
		return answer, fmt.Errorf("core: this run cannot ask questions")
	}
	// Branches of a group number their questions each for itself, as calls.
	mark := "?"
	if s.attempt == beforeFirst {
		mark += preconditions
	}
	q := Question{ID: fmt.Sprintf("%s%s%d", s.call.address, mark, s.questions.Add(1)), Text: question}
	encoded, ok, err := asker.Ask(s, q)
	switch {
	case err != nil:
		return answer, err
	case !ok:
		e := &InterruptedError{Reason: InterruptAwait, Message: q.Text, Question: q.ID, Cause: ErrAwaiting}
		for around := s; around != nil; around = around.call.parent {
			around.stopped.CompareAndSwap(nil, e)
		}
		return answer, e
	}
	if err := Decode(encoded, &answer); err != nil {
		return answer, Permanent(fmt.Errorf("core: the answer to %s does not fit: %w", q.ID, err))
	}
	return answer, nil
}
