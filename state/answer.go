package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// What answering returns, found by errors.Is.
var (
	ErrNotAsked = errors.New("state: nobody asked this question")
	ErrAnswered = errors.New("state: the question was answered before")
)

// Answer answers a question of a stored run, by its ID, from any process. The
// answer is posted to the run: the process that has it open records it at once,
// or else the next one that opens it. When Answer returns, the answer is
// durable. The call that asked goes on when the run is resumed.
//
// The first answer wins, also among processes that answer at the same time:
// any other is [ErrAnswered]. One that does not fit the type that is awaited, by
// the Schema of the question, is [core.ErrUnfit], and nothing is recorded; the
// error names each field that is missing, unknown or of the wrong type. So is one
// about a call in doubt that is not an [InDoubtAnswer], or has an output that
// is not that of the call. A value counts as its JSON where it does not fit as it
// is, such as a *big.Int and a json.Number. Where the type has changed since, the
// answer is set aside when the run goes on, and the question asked again. A question
// that was not asked is [ErrNotAsked], with those that were; a run that was cancelled
// is [ErrCancelled].
func Answer(ctx context.Context, store snapshot.Store, runID, questionID string, value any) error {
	err := answer(ctx, store, runID, questionID, value)
	if err == nil || errors.Is(err, ErrAnswered) || errors.Is(err, ErrNotAsked) {
		return err
	}
	return fmt.Errorf("state: answer to %s in run %s: %w", questionID, runID, err)
}

// answeredBefore is ErrAnswered for a question.
func answeredBefore(id string) error { return fmt.Errorf("%w: %s", ErrAnswered, id) }

func answer(ctx context.Context, store snapshot.Store, runID, questionID string, value any) error {
	found, err := load(ctx, store, runID)
	if err != nil {
		return err
	}
	if found.Status == StatusCancelled {
		return cancelledError(&found.Info)
	}
	rec, err := answerTo(found.Records, questionID, value)
	if err != nil {
		return err
	}
	return post(ctx, store, runID, rec)
}

// answerTo makes the record that answers a question, if it was asked and not
// answered since.
func answerTo(records []record.Record, id string, value any) (record.Record, error) {
	question, since := lastAsked(records, id)
	if question == nil || (core.Question{ID: id}).Sleeps() {
		return record.Record{}, fmt.Errorf("%w: %s; %s", ErrNotAsked, id, describeOpen(openQuestions(records)))
	}
	if firstAnswer(since, id) != nil {
		return record.Record{}, answeredBefore(id)
	}
	encoded, err := questionOf(question).Encode(value)
	if err != nil {
		return record.Record{}, err
	}
	return answerRecord(now(), question.Address, id, encoded), nil
}

// describeOpen names the questions that can be answered.
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

// lastAsked returns the record of the question, nil if it was never asked, and
// what follows it. It is asked again when its answer did not fit.
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

func answerRecord(at time.Time, asker record.Address, id string, encoded []byte) record.Record {
	return record.Record{
		Time: at, Address: asker, Name: id, Kind: record.KindAnswer, Status: record.StatusRecorded,
		Detail: &record.Detail{Output: encoded},
	}
}

// post leaves the answer in the inbox of the run.
//
// Another may have been recorded and removed from the inbox before this one
// was posted, but after the run was loaded. Then it is recorded by now, so the
// run is loaded once more: without it, this answer is the first.
func post(ctx context.Context, store snapshot.Store, runID string, rec record.Record) error {
	m := snapshot.Message{Record: rec}
	if err := store.Post(ctx, runID, m); errors.Is(err, snapshot.ErrPosted) {
		return answeredBefore(rec.Name)
	} else if err != nil {
		return err
	}
	found, err := load(ctx, store, runID)
	if err != nil {
		return fmt.Errorf("it was posted, but whether it is the first is not known: %w", err)
	}
	if isFirst(found.Records, &rec) {
		return nil
	}
	return errors.Join(answeredBefore(rec.Name), store.Remove(ctx, runID, m.ID()))
}

// isFirst reports whether there is no other answer to the question.
func isFirst(records []record.Record, rec *record.Record) bool {
	_, since := lastAsked(records, rec.Name)
	first := firstAnswer(since, rec.Name)
	return first == nil || first.Time.Equal(rec.Time) && bytes.Equal(first.Encoded(), rec.Encoded())
}
