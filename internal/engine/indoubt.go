package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// InDoubt is core.InDoubtPolicy.
type InDoubt uint8

// The policies for calls in doubt.
const (
	InDoubtDefault InDoubt = iota // InDoubtAsk for an irreversible actor, otherwise InDoubtRetry
	InDoubtRetry                  // the attempt is made again
	InDoubtFail                   // the call fails with ErrInDoubt
	InDoubtAsk                    // the call waits for an answer
)

// The decisions in an answer about a call in doubt: see state.InDoubtAnswer.
const (
	decidedCompleted = "completed"
	decidedRunAgain  = "run_again"
	decidedFailed    = "failed"
	decidedTakeOver  = "take_over" // only for an effect
)

// Marks in the IDs of questions: inDoubtMark precedes the number of the question, and effectMark
// precedes the effect that the question is about.
const (
	inDoubtMark = "?in-doubt"
	effectMark  = "?effect"
)

// ErrUnfit is core.ErrUnfit.
var ErrUnfit = errors.New("the answer does not fit")

// Check is core.Question.Check.
func (q Question) Check(encoded []byte) error {
	if q.Awaits != record.AwaitDecision {
		return q.checkSchema(q.Schema, encoded)
	}
	a, err := readInDoubtAnswer(encoded)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	if err := q.checkDecision(&a); err != nil || a.decision != decidedCompleted {
		return err
	}
	if err := q.checkSchema(schema.OutputOfDecision(q.Schema), a.output); err != nil {
		return fmt.Errorf("%w (in the output)", err)
	}
	return nil
}

// checkDecision rejects a decision to take over an effect if there is no effect with an output.
func (q Question) checkDecision(a *answeredInDoubt) error {
	switch {
	case a.decision != decidedTakeOver || q.InDoubt != nil && q.InDoubt.Effect.CanBeTakenOver():
		return nil
	case q.InDoubt == nil || q.InDoubt.Effect == nil:
		return fmt.Errorf(`%w: decision: "take_over" is for a call that might repeat the effect of another call; want one of "completed", "run_again", "failed"`, ErrUnfit)
	}
	return fmt.Errorf(`%w: decision: "take_over": %s has no output to take over; want "completed" with the output, "run_again" or "failed"`, ErrUnfit, q.InDoubt.Effect)
}

// checkSchema checks a value against a schema, if there is one.
func (q Question) checkSchema(document json.RawMessage, encoded []byte) error {
	if len(document) == 0 {
		return nil
	}
	answers, err := schema.Restore(document)
	if err != nil {
		return fmt.Errorf("core: question %s: %w", q.ID, err)
	}
	text, err := codec.AppendJSON(nil, encoded, 0)
	if err == nil {
		err = answers.Validate(text)
	}
	if wrong := (*schema.ValidationError)(nil); errors.As(err, &wrong) { // because the order of fields in a Go map is random
		slices.SortStableFunc(wrong.Problems, func(a, b schema.Problem) int { return strings.Compare(a.Path, b.Path) })
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnfit, err)
	}
	return nil
}

// answeredInDoubt is a decoded answer about a call in doubt. Its output is still encoded,
// because only the call knows its type.
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
		return a, fmt.Errorf(`it is not an answer about a call in doubt, such as {"decision": "run_again"}: %w`, err)
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

// errAnsweredFailed is the failure of a call in doubt if the answer says that the
// call failed.
var errAnsweredFailed = errors.New("it was in doubt, and the answer says that it failed")

// IsAnsweredFailed reports whether err comes from a call in doubt that failed because an answer
// says so.
func IsAnsweredFailed(err error) bool { return errors.Is(err, errAnsweredFailed) }

// failInDoubt fails a call in doubt.
func (c *Call) failInDoubt(p *record.Progress, s *Scope, err error) error {
	return c.refuse(p, s, Result{Err: err, Stage: record.StageHandler}, record.ReasonInDoubt)
}

// mustNotRepeat reports whether an attempt that may have taken effect must not be made again.
func (c *Call) mustNotRepeat() bool {
	return c.spec.InDoubt == InDoubtAsk || c.spec.InDoubt == InDoubtFail
}

// repeatsDoubt reports whether the call failed in doubt and is made again because the run is
// retried, even though it must not be repeated otherwise.
func (c *Call) repeatsDoubt(p *record.Progress) bool {
	return p.Again && p.InDoubt() && c.mustNotRepeat() && !c.spec.Kind.IsEntered()
}

// warnRepeated records that a call that failed in doubt is made again.
func (c *Call) warnRepeated() {
	_ = c.root.run.Append(nil, record.Record{
		Time: time.Now().Round(0).UTC(), Kind: record.KindLog, Status: record.StatusRecorded, Address: c.address,
		Detail: &record.Detail{Severity: slog.LevelWarn, Message: c.address.String() + " failed in doubt, and is made again because the run is retried: if it took effect before, it now takes effect twice"},
	})
}

// settleDoubt ends an attempt that is in doubt, unless the attempt is retried like a failed one. It
// reports false if the attempt is retried.
func (c *Call) settleDoubt(p *record.Progress, s *Scope, r *attemptEnd) (settled bool, err error) {
	if !c.mustNotRepeat() {
		return false, nil
	}
	if ended, err := c.lookUp(p, s, r); ended {
		return true, err
	}
	if c.spec.InDoubt == InDoubtAsk && !c.root.isOutside() {
		return true, c.askInDoubt(p, s, r)
	}
	return true, c.refuseAttempt(p, s, r, record.ReasonInDoubt)
}

// stopLoop interrupts the run because the process has ended too often during the attempt of s. This
// is recorded as an interrupt of the attempt. If somebody resumes the run, the count of losses
// starts from zero.
func (c *Call) stopLoop(p *record.Progress, s *Scope) error {
	return c.suspend(p, s, nil, &InterruptedError{
		Reason: record.InterruptCrashLoop,
		Message: fmt.Sprintf("the process ended %d times in a row while %s (%s) was under way; resume the run to continue it",
			p.Entries, c.address, strings.TrimSuffix(c.spec.Kind.String(), "_call")),
	}, record.StageHandler)
}

// askInDoubt asks whether the attempt of s took effect, and continues according to the answer. The
// question's number is the number of the start that the question is about. So the question stays
// the same while it is open, and a later doubt leads to a different question. r is the attempt that
// is in doubt, or nil if that attempt was made before the run was resumed.
func (c *Call) askInDoubt(p *record.Progress, s *Scope, r *attemptEnd) error {
	q := Question{
		ID: fmt.Sprintf("%s%s%d", c.address, inDoubtMark, p.Starts), Awaits: record.AwaitDecision,
		Text: fmt.Sprintf("%s %q has begun (attempt %d), and it is not known whether it took effect: has it?",
			strings.TrimSuffix(c.spec.Kind.String(), "_call"), c.spec.Name, s.Attempt()+1),
		Schema:  schema.ForDecision(c.typed.OutputSchema(), false),
		InDoubt: &record.CallInDoubt{Kind: c.spec.Kind, Name: c.spec.Name, Attempt: s.Attempt(), Starts: int(p.Starts)},
	}
	q.InDoubt.IdempotencyKey, _, _ = c.idempotencyKey()
	var answer answeredInDoubt
	asking, take := s, c.readDecision(&q, &answer)
	if r != nil {
		q.InDoubt.Began = r.ended.Add(-r.took).UTC().Round(0)
		q.InDoubt.Input, q.InDoubt.Cause = c.inputInDoubt, record.Truncate(strings.ToValidUTF8(fmt.Sprint(r.Err), "\ufffd"), record.MessageLimit)
		asking = &Scope{outer: s.outer, root: c.root, call: c, attempt: s.attempt} // the scope of the attempt is closed
		take = func([]byte) error { return errAnsweredBefore }
	}
	e, err := asking.ask(asking.context(), q, DefaultAnswer{}, nil, take)
	switch {
	case err != nil:
		return c.notRecorded(s, record.StatusAwaiting, err)
	case e != nil:
		if r != nil {
			e.Cause = fmt.Errorf("%w: %w", e.Cause, r.Err)
		}
		return c.suspend(p, s, r, e, record.StageEntry)
	case answer.decision == decidedRunAgain:
		return c.attempt(p, s)
	case answer.decision == decidedFailed:
		return c.failInDoubt(p, s, answer.failure())
	}
	kept := c.typed.KeepOutput(s.context())
	if kept.Err != nil {
		return c.halt(kept.Err) // the answer is kept until it can be recorded
	}
	return c.complete(p, s, &attemptEnd{Result: kept}, "as answered to "+q.ID)
}

// errAnsweredBefore says why an answer does not count if it was recorded before the attempt ended.
var errAnsweredBefore = errors.New("it was given before the attempt was made")

// readDecision returns a function that reads an answer to q into answer. If the answer contains the
// output of the completed call, the function decodes it into the call's output.
func (c *Call) readDecision(q *Question, answer *answeredInDoubt) func(encoded []byte) error {
	return func(encoded []byte) (err error) {
		if *answer, err = readInDoubtAnswer(encoded); err != nil {
			return err
		}
		if err = q.checkDecision(answer); err != nil || answer.decision != decidedCompleted {
			return err
		}
		if err = c.typed.DecodeAnswer(answer.output); err != nil {
			err = fmt.Errorf("the output does not fit %q: %w", c.spec.Name, err)
		}
		return err
	}
}

// failure returns the failure of a call that has failed according to the answer.
func (a *answeredInDoubt) failure() error {
	if a.message == "" {
		return errAnsweredFailed
	}
	return fmt.Errorf("%w: %s", errAnsweredFailed, a.message)
}
