package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// InDoubt is core.InDoubtPolicy.
type InDoubt uint8

// The choices for calls in doubt.
const (
	InDoubtDefault InDoubt = iota // InDoubtAsk for an irreversible actor, InDoubtRetry for any other
	InDoubtRetry                  // the attempt is made again
	InDoubtFail                   // the call fails with ErrInDoubt
	InDoubtAsk                    // the call waits for an answer
)

// The decisions of an answer about a call in doubt: see state.InDoubtAnswer.
const (
	decidedCompleted = "completed"
	decidedRunAgain  = "run_again"
	decidedFailed    = "failed"
	decidedTakeOver  = "take_over" // of an effect
)

// The marks of questions in their IDs: inDoubtMark stands before the number of the
// question, and effectMark before the effect that the question is about.
const (
	inDoubtMark = "?in-doubt"
	effectMark  = "?effect"
)

// ErrUnfit is core.ErrUnfit.
var ErrUnfit = errors.New("the answer does not fit")

// Check is core.Question.Check.
func (q Question) Check(encoded []byte) error {
	if q.Asks != record.AsksDoubt {
		return q.checkSchema(encoded)
	}
	a, err := readInDoubtAnswer(encoded)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	if err := q.checkDecision(&a); err != nil || a.decision != decidedCompleted {
		return err
	}
	if err := q.checkSchema(a.output); err != nil {
		return fmt.Errorf("%w (of the output)", err)
	}
	return nil
}

// checkDecision refuses to take over what is not there.
func (q Question) checkDecision(a *answeredInDoubt) error {
	switch {
	case a.decision != decidedTakeOver || q.InDoubt != nil && q.InDoubt.Effect.CanBeTaken():
		return nil
	case q.InDoubt == nil || q.InDoubt.Effect == nil:
		return fmt.Errorf(`%w: decision: "take_over" is for a call that might repeat the effect of another one; want one of "completed", "run_again", "failed"`, ErrUnfit)
	}
	return fmt.Errorf(`%w: decision: "take_over": there is no output of %s to take over; want "completed" with the output, "run_again" or "failed"`, ErrUnfit, q.InDoubt.Effect)
}

// checkSchema checks a value against the schema, if there is one.
func (q Question) checkSchema(encoded []byte) error {
	if len(q.Schema) == 0 {
		return nil
	}
	answers, err := schema.Restore(q.Schema)
	if err != nil {
		return fmt.Errorf("core: question %s: %w", q.ID, err)
	}
	text, err := codec.AppendJSON(nil, encoded, 0)
	if err == nil {
		err = answers.Validate(text)
	}
	if wrong := (*schema.ValidationError)(nil); errors.As(err, &wrong) { // the fields of a Go map come in any order
		slices.SortStableFunc(wrong.Problems, func(a, b schema.Problem) int { return strings.Compare(a.Path, b.Path) })
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return nil
}

// answeredInDoubt is a decoded answer about a call in doubt. Its output is
// still encoded, since only the call knows its type.
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
	var unknown []string
	for name := range in.Pairs() {
		switch name {
		case "decision":
			a.decision = in.Text()
		case "message":
			a.message = in.Text()
		case "output":
			a.output = bytes.Clone(in.Skip())
		default:
			in.Skip()
			unknown = append(unknown, strconv.Quote(name))
		}
	}
	if len(unknown) > 0 && in.Err() == nil {
		return a, fmt.Errorf(`%s: unknown field; want one of "decision", "output", "message"`, strings.Join(unknown, ", "))
	}
	if err := in.Err(); err != nil {
		return a, fmt.Errorf(`it is none about a call in doubt, such as {"decision": "run_again"}: %w`, err)
	}
	switch a.decision {
	case decidedRunAgain, decidedFailed, decidedTakeOver:
		return a, nil
	case decidedCompleted:
		if a.output == nil {
			return a, errors.New(`the decision "completed" needs the "output" of the call`)
		}
		return a, nil
	}
	return a, fmt.Errorf(`decision: got %q, want one of "completed", "run_again", "failed", and "take_over" for an effect`, a.decision)
}

// errAnsweredFailed is the failure of a call in doubt that was answered to have
// failed.
var errAnsweredFailed = errors.New("it was in doubt, and answered to have failed")

// failInDoubt fails a call in doubt.
func (c *Call) failInDoubt(p *record.Progress, s *Scope, err error) error {
	return c.refuse(p, s, Result{Err: err, Stage: record.StageHandler}, record.ReasonInDoubt)
}

// settleDoubt ends an attempt of which the handler has said that it is in doubt, unless it
// is retried as one that failed. It reports whether it did.
func (c *Call) settleDoubt(p *record.Progress, s *Scope, r *attempted) (settled bool, err error) {
	rules := c.rules()
	if !rules.AsksInDoubt && !rules.FailsInDoubt {
		return false, nil
	}
	if ended, err := c.lookUp(p, s, r); ended {
		return true, err
	}
	if rules.AsksInDoubt && !c.root.isOutside() {
		return true, c.askInDoubt(p, s, r)
	}
	return true, c.refuseAttempt(p, s, r, record.ReasonInDoubt)
}

// setAside interrupts the run, because the process has ended too often while the
// attempt of s ran. It is recorded as an interrupt of the attempt: if somebody
// resumes the run, losses are counted anew.
func (c *Call) setAside(p *record.Progress, s *Scope) error {
	return c.suspend(p, s, nil, &InterruptedError{
		Reason: record.InterruptCrashLoop,
		Message: fmt.Sprintf("the process ended %d times in a row while %s (%s) was under way; the run continues when it is resumed",
			p.Entries, c.address, strings.TrimSuffix(c.spec.Kind.String(), "_call")),
	}, record.StageHandler)
}

// askInDoubt asks somebody whether the attempt of s took effect, and continues
// as the answer says. The question has the number of the start that it is
// about: while it is open it stays the same, and a later doubt is another
// question. r is the attempt if its handler has said that it is in doubt; nil if
// none was made.
func (c *Call) askInDoubt(p *record.Progress, s *Scope, r *attempted) error {
	q := Question{
		ID: fmt.Sprintf("%s%s%d", c.address, inDoubtMark, p.Starts), Asks: record.AsksDoubt,
		Text: fmt.Sprintf("%s %q has begun (attempt %d), and it is not known whether it took effect: has it? "+
			`Answer {"decision": "completed", "output": …}, {"decision": "run_again"}, or {"decision": "failed", "message": "…"}`,
			strings.TrimSuffix(c.spec.Kind.String(), "_call"), c.spec.Name, s.Attempt()+1),
		Schema:  c.typed.OutputSchema(),
		InDoubt: &record.CallInDoubt{Kind: c.spec.Kind, Name: c.spec.Name, Attempt: s.Attempt(), Starts: int(p.Starts)},
	}
	var answer answeredInDoubt
	next := s
	if r != nil { // the scope of the attempt is closed
		next = &Scope{outer: s.outer, root: c.root, call: c, attempt: s.attempt}
	}
	e, err := next.ask(next.context(), q, DefaultAnswer{}, nil, c.readDecision(&q, &answer))
	switch {
	case err != nil:
		return c.notRecorded(s, record.StatusAwaiting, err)
	case e != nil:
		if r != nil {
			e.Cause = fmt.Errorf("%w: %w", e.Cause, r.Err)
		}
		return c.suspend(p, s, r, e, record.StageEntry)
	case answer.decision == decidedRunAgain:
		return c.attempt(p, next)
	case answer.decision == decidedFailed:
		return c.failInDoubt(p, s, answer.failure())
	}
	kept := c.typed.KeepOutput(next.context())
	if kept.Err != nil {
		return c.halt(kept.Err) // the answer stays, for when it can be kept
	}
	return c.complete(p, s, &attempted{Result: kept}, "as answered to "+q.ID)
}

// readDecision returns a function that reads an answer to q into answer. The output of a
// call that took effect becomes that of the call.
func (c *Call) readDecision(q *Question, answer *answeredInDoubt) func(encoded []byte) error {
	return func(encoded []byte) (err error) {
		if *answer, err = readInDoubtAnswer(encoded); err != nil {
			return err
		}
		if err = q.checkDecision(answer); err != nil || answer.decision != decidedCompleted {
			return err
		}
		if err = c.typed.DecodeAnswer(answer.output); err != nil {
			err = fmt.Errorf("the output is not that of %q: %w", c.spec.Name, err)
		}
		return err
	}
}

// failure is the failure of a call that was answered to have failed.
func (a *answeredInDoubt) failure() error {
	if a.message == "" {
		return errAnsweredFailed
	}
	return fmt.Errorf("%w: %s", errAnsweredFailed, a.message)
}
