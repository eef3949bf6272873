package core

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// ErrAwaiting is found by errors.Is in the [InterruptedError] of a call that
// waits for an answer. Such a call is suspended, like an interrupted one.
var ErrAwaiting = errors.New("awaiting an answer")

// A Question is a question that a call asks of somebody outside the run.
type Question struct {
	ID   string // the address of the call, "?" and a number: "assistant/refund?1"
	Text string

	// Asks is record.AsksDoubt if the question is about a call in doubt, and has to
	// be answered with a state.InDoubtAnswer. That of a [Sleep], which nobody has to
	// answer, is record.AsksTime; otherwise it is record.AsksAnswer.
	Asks record.Asks

	// Due is when the default answers the question; zero if it has no default.
	Due time.Time

	// Refused is why the previous answer does not fit. The question is then
	// open again, under the same ID. It is empty otherwise.
	Refused string

	// Schema is the JSON schema of the answer; of a question about a call in
	// doubt, that of the output of the call. It is empty if it is not known.
	Schema json.RawMessage

	// Call is the call in doubt that the question is about; nil for other
	// questions.
	Call *record.CallInDoubt
}

// Await asks a question of somebody outside the run, such as a human, and
// returns the answer. Without an answer the call is suspended: Await returns an
// *[InterruptedError], the handler returns that, and the run is paused. When it
// is resumed with an answer, the handler is entered again and Await returns the
// answer. Code before Await runs again, unless it is a call or a step.
//
// Open questions are listed by state.Questions and "reprise questions", and
// answered by state.Answer, "reprise answer" and the dashboard.
//
// Questions are numbered within an attempt, and within each branch of a group,
// so a retry does not ask again. The question has the JSON schema of T, against
// which answers are checked before they are recorded, as the arguments of a
// tool are: a type without a schema is an error. An answer that does not fit T,
// because the program has changed, is discarded: the question is asked again,
// with the reason, and the call stays suspended. The time of waiting counts
// against no timeout. Outside a run, the error is [ErrNoRun].
//
// With [Default], the question is answered by a default when its time is over
// and the run is resumed. A runner resumes it then.
func Await[T any](ctx context.Context, question string, options ...AwaitOption[T]) (T, error) {
	var answer T
	s := inRun(ctx)
	if s == nil || s.call == nil {
		return answer, ErrNoRun
	}
	answers, err := schema.ForValue(reflect.TypeFor[T]())
	if err != nil {
		return answer, Permanent(fmt.Errorf("core: Await: nobody can answer with a %v: %w", reflect.TypeFor[T](), err))
	}
	q := Question{Asks: record.AsksAnswer, Text: question, Schema: answers.JSON()}
	def, err := defaultOf(q, options)
	if err != nil {
		return answer, Permanent(err)
	}
	id, claimed, suspended := s.claimQuestion(questionMark)
	if suspended != nil {
		return answer, suspended
	}
	q.ID = id
	suspended, err = s.ask(ctx, q, def, claimed, func(encoded []byte) (err error) {
		answer, err = decodeAnswer[T](answers, encoded)
		return err
	})
	if suspended != nil {
		s.Suspend(suspended)
		return answer, suspended
	}
	return answer, err
}

// An AwaitOption configures [Await].
type AwaitOption[T any] struct {
	after  time.Duration
	answer T
}

// Default answers a question that nobody has answered within the time after,
// counted from when it was first asked. A later answer counts if the run has
// not continued yet. After must be above zero.
//
//	ok, err := core.Await(ctx, "Refund it?", core.Default(24*time.Hour, false))
func Default[T any](after time.Duration, answer T) AwaitOption[T] {
	return AwaitOption[T]{after, answer}
}

// A DefaultAnswer is the answer to a question that nobody has answered in time.
// The zero value is none.
type DefaultAnswer struct {
	After   time.Duration // since the question was asked
	Encoded []byte
}

func defaultOf[T any](q Question, options []AwaitOption[T]) (DefaultAnswer, error) {
	if len(options) == 0 {
		return DefaultAnswer{}, nil
	}
	o := options[len(options)-1]
	if o.after <= 0 {
		return DefaultAnswer{}, fmt.Errorf("core: Default(%v, …): want a time above zero", o.after)
	}
	encoded, err := q.Encode(o.answer)
	if err != nil {
		return DefaultAnswer{}, fmt.Errorf("core: Default(%v, …): %w", o.after, err)
	}
	return DefaultAnswer{o.after, encoded}, nil
}

// decodeAnswer decodes an answer for a T. If the answer was JSON before it was
// encoded, in which bytes are a string and some types are what their methods read,
// it is read as JSON. Answers is the schema of T, nil if it has none.
func decodeAnswer[T any](answers *schema.Schema, encoded []byte) (T, error) {
	var zero, answer T
	text, err := codec.AppendJSON(nil, encoded, 0)
	if err != nil {
		return zero, err
	}
	if answers != nil {
		if err := answers.Validate(text); err != nil {
			return zero, err
		}
	}
	if codec.WantsJSON(reflect.TypeFor[T]()) && !codec.HoldsJSON(encoded) {
		if answer, err := readJSON[T](text); err == nil {
			return answer, nil
		}
	}
	if err = record.Decode(encoded, &answer); err == nil {
		return answer, nil
	}
	answer, wrong := readJSON[T](text)
	if wrong != nil {
		return zero, err
	}
	return answer, nil
}

// readJSON reads a T as encoding/json does, and returns it as a record would.
func readJSON[T any](text []byte) (answer T, err error) {
	defer func() {
		if p := recover(); p != nil { // of a method of the user's type
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	var read T
	if err := json.Unmarshal(text, &read); err != nil {
		return answer, err
	}
	encoded, err := record.Encode(read)
	if err == nil {
		err = record.Decode(encoded, &answer)
	}
	return answer, err
}

// ask passes the answer to take, which returns an error if it does not fit.
// Without an answer that fits, ask returns the suspension to stop with. Claimed
// is the claim of the question, nil if the handler does not ask it.
func (s *Scope) ask(ctx context.Context, q Question, def DefaultAnswer, claimed *record.Claim, take func(encoded []byte) error) (*InterruptedError, error) {
	e := &InterruptedError{Reason: record.InterruptAwait, Message: q.Text, Question: q.ID, Asks: q.Asks, Cause: ErrAwaiting}
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
		stopped, isStopped := err.(*InterruptedError) //nolint:errorlint // the run's own, which has stopped it
		switch {
		case isStopped:
			return stopped, nil
		case err != nil:
			return nil, err
		case asked.Answer != nil:
		case q.Asks == record.AsksTime && s.sleepsHere(asked.Due):
			if e, err := s.sleep(ctx, asked.Due); e != nil || err != nil {
				return e, err
			}
			continue
		default:
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
