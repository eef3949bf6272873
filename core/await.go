package core

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/schema"
	"github.com/reprise-go/reprise/record"
)

// ErrAwaiting is matched, with errors.Is, by the [InterruptedError] of a call that waits for an
// answer, for a signal or for the end of a sleep. Such a call is suspended, like an interrupted
// one.
var ErrAwaiting = engine.ErrAwaiting

// A Question is what a call asks somebody outside the run.
type Question struct {
	ID   string // the address of the call, "?" and a number: "assistant/refund?1"
	Text string

	// Awaits is record.AwaitDecision if the question is about a call in doubt, in which case the
	// answer is a state.InDoubtAnswer. It is record.AwaitTime for a [Sleep] and record.AwaitSignal
	// for a [Receive]; nobody has to answer these two. For all other questions, it is
	// record.AwaitAnswer.
	Awaits record.AwaitKind

	// Due is the time at which the question gets its default answer. It is zero if there is no
	// default.
	Due time.Time

	// Refused says why the previous answer does not fit. The question is then open again, under the
	// same ID. Refused is empty if no answer was refused.
	Refused string

	// Schema is the JSON schema of the answer. It is empty if the schema is not known.
	Schema json.RawMessage

	// InDoubt is the call in doubt that the question is about, or nil for any other question.
	InDoubt *record.CallInDoubt
}

// Await asks somebody outside the run, such as a human, and returns the answer. Until there is an
// answer, the call is suspended: Await returns an *[InterruptedError], which the handler has to
// return, and the run is paused. When the run is resumed with an answer, the handler is called
// again and Await returns the answer. Code before Await runs again, unless it is a call or a step.
//
// Open questions are listed by state.Questions and "reprise questions", and answered by
// state.Answer, "reprise answer" and the dashboard. A program that opens its runs itself waits for
// the answer with state.AwaitAnswers; a runner continues a run when its question is answered.
// Nobody can answer the questions of a run in memory (state.New): instead, open the run in a store,
// such as memstore.New in a test.
//
// Each attempt, and each branch of a group, numbers its questions from 1. So the first question of
// a retry is the same as the first question of the earlier attempt, and is already answered. The
// question has the JSON schema of T. Answers are checked against the schema before they are
// recorded, like a tool's arguments. If T has no schema, Await returns an error. An answer that
// does not fit T, because the program has changed, is discarded: the question is asked again, with
// the reason, and the call stays suspended. Time spent waiting does not count against any timeout.
// Outside a run, the error is [ErrNoRun].
//
// With [AwaitDefault], the question gets the default answer if the run is resumed after the time
// for an answer has passed. A runner resumes the run at that time.
func Await[T any](ctx context.Context, question string, options ...AwaitOption[T]) (T, error) {
	var answer T
	if !engine.CanAsk(ctx) {
		return answer, ErrNoRun
	}
	answers, err := schema.ForValue(reflect.TypeFor[T]())
	if err != nil {
		return answer, Permanent(fmt.Errorf("core: Await: nobody can answer with a %v: %w", reflect.TypeFor[T](), err))
	}
	q := Question{Awaits: record.AwaitAnswer, Text: question, Schema: answers.JSON()}
	def, err := defaultOf(q, options)
	if err != nil {
		return answer, Permanent(err)
	}
	err = engine.Await(ctx, engine.Question(q), def, func(encoded []byte) error {
		return decodeAnswer(answers, encoded, &answer)
	})
	return answer, err
}

// An AwaitOption configures [Await] and [Receive]. The zero AwaitOption does nothing.
type AwaitOption[T any] struct {
	hasDefault bool
	after      time.Duration
	answer     T
}

// AwaitDefault sets the answer that is used if nobody answers in time. The time for an answer is
// after, counted from when the question was first asked; it must be above zero. A later answer
// still counts if the run has not continued by then. For [Receive], answer is the value that is
// used if no signal arrives in time.
//
//	ok, err := core.Await(ctx, "Refund it?", core.AwaitDefault(24*time.Hour, false))
func AwaitDefault[T any](after time.Duration, answer T) AwaitOption[T] {
	return AwaitOption[T]{true, after, answer}
}

func defaultOf[T any](q Question, options []AwaitOption[T]) (engine.DefaultAnswer, error) {
	var o AwaitOption[T]
	for _, option := range options {
		if option.hasDefault {
			o = option
		}
	}
	if !o.hasDefault {
		return engine.DefaultAnswer{}, nil
	}
	if o.after <= 0 {
		return engine.DefaultAnswer{}, fmt.Errorf("core: AwaitDefault(%v, …): want a positive duration", o.after)
	}
	encoded, err := q.Encode(o.answer)
	if err != nil {
		return engine.DefaultAnswer{}, fmt.Errorf("core: AwaitDefault(%v, …): %w", o.after, err)
	}
	return engine.DefaultAnswer{After: o.after, Encoded: encoded}, nil
}

// decodeAnswer decodes an answer into *answer; if there is an error, it sets *answer to zero. An
// answer that was given as JSON is read as JSON, because JSON encodes bytes as strings and uses
// other encoding methods of types than msgpack does. answers is the schema of the type, or nil if
// it has none.
func decodeAnswer(answers *schema.Schema, encoded []byte, answer any) (err error) {
	value := reflect.ValueOf(answer).Elem()
	value.SetZero()
	text, err := codec.AppendJSON(nil, encoded, 0)
	if err != nil {
		return err
	}
	if answers != nil {
		if err := answers.Validate(text); err != nil {
			return err
		}
	}
	if codec.WantsJSON(value.Type()) && !codec.HoldsJSON(encoded) && readJSON(text, value) == nil {
		return nil
	}
	if err = record.Decode(encoded, answer); err == nil || readJSON(text, value) == nil {
		return nil
	}
	value.SetZero()
	return err
}

// readJSON decodes text as encoding/json does, encodes the result as for a record, and decodes that
// into value. If there is an error, value does not change.
func readJSON(text []byte, value reflect.Value) (err error) {
	defer func() {
		if p := recover(); p != nil { // a method of the user's type panicked
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	read, kept := reflect.New(value.Type()), reflect.New(value.Type())
	if err := json.Unmarshal(text, read.Interface()); err != nil {
		return err
	}
	encoded, err := record.Encode(read.Elem().Interface())
	if err == nil {
		err = record.Decode(encoded, kept.Interface())
	}
	if err == nil {
		value.Set(kept.Elem())
	}
	return err
}
