package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Errors returned by [Answer]. Test for them with errors.Is.
var (
	ErrNotAsked = errors.New("state: the question was not asked")
	ErrAnswered = errors.New("state: the question was already answered")
)

// Answer answers the question with the given ID in a stored run, from any process. The parameter
// by says who answers; it may be empty. The answer is posted to the run. If a process has the run
// open, that process records the answer at once; otherwise, the next process that opens the run
// does. When Answer returns, the answer is durable. The call that asked continues when the run is
// resumed.
//
// The first answer wins, even if several processes answer at the same time: for any later answer,
// the error is [ErrAnswered]. If the question was not asked, or its call is over, the error is
// [ErrNotAsked] and lists the open questions. If the run was cancelled, the error is
// [ErrCancelled]. While a cancelled run still has calls to compensate, only questions asked by
// compensations can be answered.
//
// If value does not fit the question's Schema, the error is [core.ErrUnfit] and nothing is
// recorded; the error names each field that is missing, unknown or of the wrong type. An answer
// about a call in doubt must be an [InDoubtAnswer] whose output fits the call; otherwise the error
// is also [core.ErrUnfit]. If value itself does not fit but its JSON does, as for a *big.Int or a
// json.Number, the JSON is used. If the program expects another type of answer when the run
// continues, the answer is discarded and the question is asked again.
func Answer(ctx context.Context, store snapshot.Store, runID, questionID, by string, value any) error {
	if err := checkStore(store); err != nil {
		return err
	}
	err := answer(ctx, store, runID, questionID, by, value)
	if err == nil || errors.Is(err, ErrAnswered) || errors.Is(err, ErrNotAsked) {
		return err
	}
	return fmt.Errorf("state: answer to %s in run %s: %w", questionID, runID, err)
}

// JSONAnswer converts an answer written as JSON to a value for [Answer]. Whole
// numbers become integers, so that they fit integer types.
func JSONAnswer(data []byte) (any, error) { return codec.FromJSON(data) }

// An InDoubtAnswer answers a question about a call in doubt: see [core.InDoubtAsk],
// and Awaits and InDoubt of [core.Question]. In JSON it is one of
//
//	{"decision": "completed", "output": …}
//	{"decision": "run_again"}
//	{"decision": "failed", "message": "why"}
//
// and, for a call to an irreversible actor that has not begun and might repeat another call's
// effect,
//
//	{"decision": "take_over"}
type InDoubtAnswer struct {
	Decision string `json:"decision"`
	Output   any    `json:"output"` // the call's output, if it completed
	Message  string `json:"message"`
}

// InDoubtCompleted answers that the call took effect. The call completes with the given output,
// which must have the call's output type. Neither the handler nor the postconditions run.
func InDoubtCompleted(output any) InDoubtAnswer {
	return InDoubtAnswer{Decision: "completed", Output: output}
}

// InDoubtRunAgain answers that the attempt is to be made again. The repetition does not count
// against MaxAttempts, so even the last attempt can be made again.
func InDoubtRunAgain() InDoubtAnswer { return InDoubtAnswer{Decision: "run_again"} }

// InDoubtTakeOver answers that the call is to complete with the output of the effect that it might
// repeat. See actors.WithIrreversible.
func InDoubtTakeOver() InDoubtAnswer { return InDoubtAnswer{Decision: "take_over"} }

// InDoubtFailed answers that the call is to fail with [core.ErrInDoubt] and the message. The call
// may still have taken effect, so CompensateInDoubt undoes it.
func InDoubtFailed(message string) InDoubtAnswer {
	return InDoubtAnswer{Decision: "failed", Message: message}
}

// answeredBefore returns an ErrAnswered that names the question.
func answeredBefore(id string) error { return fmt.Errorf("%w: %s", ErrAnswered, id) }

func answer(ctx context.Context, store snapshot.Store, runID, questionID, by string, value any) error {
	found, waiting, err := loadWithMessages(ctx, store, runID)
	if err != nil {
		return err
	}
	if err := checkNotMoot(found, waiting, questionID); err != nil {
		return err
	}
	rec, err := answerTo(found.Records, questionID, by, value)
	if err != nil {
		return err
	}
	return post(ctx, store, runID, rec)
}

// answerTo returns the record that answers a question, if the question was asked and has not been
// answered since.
func answerTo(records []record.Record, id, by string, value any) (record.Record, error) {
	question, since := lastAsked(records, id)
	if question == nil || !question.Awaits().NeedsAnswer() {
		return record.Record{}, fmt.Errorf("%w: %s; %s", ErrNotAsked, id, describeOpen(openQuestions(records)))
	}
	if firstAnswer(since, id) != nil {
		return record.Record{}, answeredBefore(id)
	}
	open := openQuestions(records)
	i := slices.IndexFunc(open, func(q core.Question) bool { return q.ID == id })
	if i < 0 {
		return record.Record{}, fmt.Errorf("%w: %s: the call that asked it is over; %s", ErrNotAsked, id, describeOpen(open))
	}
	encoded, err := open[i].Encode(value)
	if err != nil {
		return record.Record{}, err
	}
	return answerRecord(now(), question.Address, id, by, encoded), nil
}

// describeOpen lists the questions that can be answered.
func describeOpen(open []core.Question) string {
	if len(open) == 0 {
		return "none is open"
	}
	ids := make([]string, len(open))
	for i := range open {
		ids[i] = open[i].ID
	}
	return "open: " + strings.Join(ids, ", ")
}

// lastAsked returns the question's latest record and the records after it. If the question was
// never asked, it returns nil and all records. A question is asked again if its answer did not
// fit.
func lastAsked(records []record.Record, id string) (question *record.Record, since []record.Record) {
	for i := len(records) - 1; i >= 0; i-- {
		if r := &records[i]; r.Kind == record.KindQuestion && r.Name == id {
			return r, records[i+1:]
		}
	}
	return nil, records
}

func firstAnswer(records []record.Record, id string) *record.Record {
	for i := range records {
		if r := &records[i]; r.Kind == record.KindAnswer && r.Name == id {
			return r
		}
	}
	return nil
}

func answerRecord(at time.Time, asker record.Address, id, by string, encoded []byte) record.Record {
	return record.Record{
		Time: at, Address: asker, Name: id, Kind: record.KindAnswer, Status: record.StatusRecorded,
		Detail: &record.Detail{Output: encoded, By: by},
	}
}

// post puts the answer into the run's inbox.
//
// Another answer may have been recorded, and removed from the inbox, after the run was loaded and
// before this answer was posted. Therefore post loads the run again. If there is no other answer,
// this one is the first.
func post(ctx context.Context, store snapshot.Store, runID string, rec record.Record) error {
	m := snapshot.Message{Record: rec}
	if err := store.Post(ctx, runID, m); errors.Is(err, snapshot.ErrPosted) {
		return answeredBefore(rec.Name)
	} else if err != nil {
		return err
	}
	found, err := load(ctx, store, runID)
	if err != nil {
		return fmt.Errorf("it was posted, but it is not known whether it is the first answer: %w", err)
	}
	if isFirst(found.Records, &rec) {
		return nil
	}
	return errors.Join(answeredBefore(rec.Name), store.Remove(ctx, runID, m.ID()))
}

// isFirst reports whether no other answer to the question was recorded.
func isFirst(records []record.Record, rec *record.Record) bool {
	_, since := lastAsked(records, rec.Name)
	first := firstAnswer(since, rec.Name)
	return first == nil || first.Time.Equal(rec.Time) && first.AnsweredBy() == rec.AnsweredBy() && bytes.Equal(first.Encoded(), rec.Encoded())
}
