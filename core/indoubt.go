package core

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/reprise-go/reprise/internal/codec"
)

// InDoubt says what becomes of a call of which it is not known whether its
// handler took effect.
type InDoubt uint8

// What becomes of calls in doubt.
const (
	InDoubtRetry InDoubt = iota // the attempt counts, and the next one is made if there is one
	InDoubtFail                 // it fails with ErrInDoubt, for somebody to look
	InDoubtAsk                  // it waits for an InDoubtAnswer
)

// An InDoubtAnswer answers the question about a call in doubt (see
// [InDoubtAsk] and [Question.InDoubt]). In JSON it is one of
//
//	{"decision": "completed", "output": …}
//	{"decision": "run_again"}
//	{"decision": "failed", "message": "why"}
type InDoubtAnswer struct {
	Decision string `json:"decision"`
	Output   any    `json:"output"` // of a call that completed
	Message  string `json:"message"`
}

// The decisions.
const (
	decidedCompleted = "completed"
	decidedRunAgain  = "run_again"
	decidedFailed    = "failed"
)

// InDoubtCompleted answers that the call took effect: it completes with this
// output, which must have the type of the call's. Neither handler nor
// postconditions run.
func InDoubtCompleted(output any) InDoubtAnswer {
	return InDoubtAnswer{Decision: decidedCompleted, Output: output}
}

// InDoubtRunAgain answers that the attempt is to be made again. It does not
// count, be it the last.
func InDoubtRunAgain() InDoubtAnswer { return InDoubtAnswer{Decision: decidedRunAgain} }

// InDoubtFailed answers that the call is to fail, with [ErrInDoubt] and the
// message.
func InDoubtFailed(message string) InDoubtAnswer {
	return InDoubtAnswer{Decision: decidedFailed, Message: message}
}

// inDoubtMark stands before the number of the question in its ID.
const inDoubtMark = "?in-doubt"

// InDoubt reports whether the question is that of a call in doubt, and to be
// answered with an [InDoubtAnswer].
func (q Question) InDoubt() bool { return strings.Contains(q.ID, inDoubtMark) }

// ErrUnfit is found in the error of an answer that does not fit its question.
var ErrUnfit = errors.New("the answer does not fit")

// Check reports, as far as the question itself tells, what keeps an encoded
// value from being an answer to it: one about a call in doubt must be an
// [InDoubtAnswer]. What an [Await] takes is only known to the call. The error is
// [ErrUnfit].
func (q Question) Check(encoded []byte) error {
	if !q.InDoubt() {
		return nil
	}
	if _, err := readInDoubtAnswer(encoded); err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return nil
}

// answeredInDoubt is an InDoubtAnswer that was read: the output is still
// encoded, for only the call knows its type.
type answeredInDoubt struct {
	decision, message string
	output            []byte // nil if there is none
}

func readInDoubtAnswer(encoded []byte) (a answeredInDoubt, err error) {
	if got := codec.Describe(encoded); got != "an object" {
		return a, fmt.Errorf(`got %s, want an object such as {"decision": "run_again"}`, got)
	}
	in := codec.NewReader(encoded)
	defer in.Release()
	for n := in.Map(); n > 0 && in.Err() == nil; n-- {
		switch in.Name() {
		case "decision":
			a.decision = in.Text()
		case "message":
			a.message = in.Text()
		case "output":
			a.output = bytes.Clone(in.Skip())
		default:
			in.Skip()
		}
	}
	if err := in.Err(); err != nil {
		return a, fmt.Errorf(`it is none about a call in doubt, such as {"decision": "run_again"}: %w`, err)
	}
	switch a.decision {
	case decidedRunAgain, decidedFailed:
		return a, nil
	case decidedCompleted:
		if a.output == nil {
			return a, errors.New(`the decision "completed" needs the "output" of the call`)
		}
		return a, nil
	}
	return a, fmt.Errorf(`the decision is %q; allowed are "completed", "run_again" and "failed"`, a.decision)
}

// settleInDoubt decides about a call of which it is not known whether the
// attempt of s took effect. It returns the scope of the attempt to make; nil,
// with the error, if the call has ended.
func (c *call) settleInDoubt(s *Scope, rec *Recalled) (*Scope, error) {
	switch {
	case c.spec.Kind == KindAgent:
		return s, nil // it is entered again
	case c.spec.InDoubt == InDoubtAsk:
		return c.askInDoubt(s, rec.Starts)
	case c.spec.InDoubt == InDoubtFail:
		c.r = result{err: errMayHaveRun, stage: StageHandler}
		return nil, c.failBefore(s, ReasonInDoubt)
	case !rec.Started:
		return s, nil // it was interrupted, which does not count
	}
	// It is not known what the handler did. The attempt counts.
	if last := c.policy.config.MaxAttempts; last != Unlimited && rec.Attempt+1 >= last {
		c.r = result{err: errLeftBehind, stage: StageHandler}
		return nil, c.failBefore(s, ReasonInDoubt)
	}
	return c.next(s), nil
}

// errMayHaveRun is the failure of a call that must not run twice.
var errMayHaveRun = errors.New("its handler had begun when the run stopped; whether it took effect is not known, and it asks not to be run again")

// errLeftBehind is the failure of a call whose process ended during its last
// attempt.
var errLeftBehind = errors.New("the process ended during the last attempt; whether the call took effect is not known")

// errAnsweredFailed is the failure of a call in doubt that somebody let fail.
var errAnsweredFailed = errors.New("it was in doubt, and answered to have failed")

// askInDoubt has somebody decide about the attempt of s. The question has the
// number of the start that it is about: while it is open it stays the same, and
// a later doubt is another.
func (c *call) askInDoubt(s *Scope, start int) (*Scope, error) {
	q := Question{
		ID: fmt.Sprintf("%s%s%d", c.address, inDoubtMark, start),
		Text: fmt.Sprintf("%s %q had begun (attempt %d) when the run stopped: has it taken effect? "+
			`Answer {"decision": "completed", "output": …}, {"decision": "run_again"}, or {"decision": "failed", "message": "…"}`,
			strings.TrimSuffix(c.spec.Kind.String(), "_call"), c.spec.Name, s.Attempt()+1),
	}
	var answer answeredInDoubt
	e, err := s.ask(q, func(encoded []byte) (err error) {
		if answer, err = readInDoubtAnswer(encoded); err != nil || answer.decision != decidedCompleted {
			return err
		}
		if err = c.body.decodeAnswer(answer.output); err != nil {
			err = fmt.Errorf("the output is not that of %q: %w", c.spec.Name, err)
		}
		return err
	})
	switch {
	case err != nil:
		return nil, c.notRecorded(s, StatusAwaiting, err)
	case e != nil:
		return nil, c.suspend(s, e, StageEntry)
	case answer.decision == decidedRunAgain:
		return s, nil
	case answer.decision == decidedFailed:
		c.r = result{err: errAnsweredFailed, stage: StageHandler}
		if answer.message != "" {
			c.r.err = fmt.Errorf("%w: %s", errAnsweredFailed, answer.message)
		}
		return nil, c.failBefore(s, ReasonInDoubt)
	}
	return nil, c.completeAsAnswered(s, q)
}

// completeAsAnswered ends the call with the output that somebody gave.
func (c *call) completeAsAnswered(s *Scope, q Question) error {
	c.pause()
	if c.body.keepOutput(s, &c.r); c.r.err != nil {
		return c.halt(c.r.err) // the answer stays, for when it can be kept
	}
	return c.completeWith(s, "as answered to "+q.ID)
}
