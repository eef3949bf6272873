package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Ask implements core.Run.
func (r *run) Ask(s *core.Scope, q core.Question, claims []record.Claim) (answer []byte, recorded bool, err error) {
	r.mu.Lock()
	answer, answered := r.answers[q.ID]
	before := r.asked[q.ID]
	asked := before.seq > r.rerun.within(s)
	answered = answered && asked
	if asked && before.text != q.Text && r.restored != nil && r.validation == nil && r.divergence != DivergenceRerun {
		d := &core.DivergenceError{
			RunID: r.settings.RunID, How: "question", Address: s.Address(), Scope: s.Path(),
			Recorded: strconv.Quote(before.text), Asked: strconv.Quote(q.Text),
			Hint: "an answer to one question must not be taken for that to another",
		}
		if err := r.diverged(d); err != nil { // which unlocks
			return nil, false, err
		}
	} else {
		r.mu.Unlock()
	}
	switch {
	case answered && q.Refused == "":
		return answer, false, nil
	case asked && !answered:
		return nil, false, nil
	}
	rec := record.Record{
		Time: now(), Address: s.Address(), Name: q.ID, Kind: record.KindQuestion, Status: record.StatusAwaiting,
		Detail: &record.Detail{Message: q.Text, Unrecorded: claims},
	}
	if q.Refused != "" {
		rec.Err, rec.Class = errors.New(q.Refused), record.ClassInvalid
	}
	err = r.Append(s, rec)
	return nil, err == nil, err
}

// askedQuestion is a question as it was asked last.
type askedQuestion struct {
	seq  uint64
	text string
}

// questions takes in the record with that number, if it is about a question.
// The lock is held.
func (r *run) questions(rec *record.Record, seq uint64) {
	switch rec.Kind {
	case record.KindQuestion:
		if r.asked == nil {
			r.asked = make(map[string]askedQuestion)
		}
		r.asked[rec.Name] = askedQuestion{seq, rec.Message()}
		delete(r.answers, rec.Name) // which was set aside, if there was one
	case record.KindAnswer:
		if r.answers == nil {
			r.answers = make(map[string][]byte)
		}
		r.answers[rec.Name] = rec.Encoded()
	}
}

// Questions returns what the run waits to be told, in the order of asking.
// They are for those who answer, and not redacted.
func (st *ExecutionState) Questions() []core.Question {
	records, _ := st.run.readRecords(context.Background())
	return openQuestions(records)
}

// Questions returns what a stored run waits to be told, in the order of
// asking. Answers that wait to be taken in count.
func Questions(ctx context.Context, store snapshot.Store, runID string) ([]core.Question, error) {
	found, err := load(ctx, store, runID)
	if err != nil {
		return nil, fmt.Errorf("state: questions of run %s: %w", runID, err)
	}
	open, err := unanswered(ctx, store, found)
	if err != nil {
		return nil, fmt.Errorf("state: questions of run %s: %w", runID, err)
	}
	return open, nil
}

// unanswered returns the questions of a run that have no answer, neither
// recorded nor waiting to be. A run that was cancelled waits for none.
func unanswered(ctx context.Context, store snapshot.Store, found *snapshot.Snapshot) ([]core.Question, error) {
	open := openQuestions(found.Records)
	if len(open) == 0 || found.Status == StatusCancelled {
		return nil, nil
	}
	waiting, err := store.Messages(ctx, found.RunID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(open, func(q core.Question) bool {
		return slices.ContainsFunc(waiting, func(m snapshot.Message) bool {
			return m.Record.Kind == record.KindAnswer && m.Record.Name == q.ID
		})
	}), nil
}

// openQuestions are those that were not answered since they were asked last.
func openQuestions(records []record.Record) []core.Question {
	last := make(map[string]int)
	for i := range records {
		if k := records[i].Kind; k == record.KindQuestion || k == record.KindAnswer {
			last[records[i].Name] = i
		}
	}
	var open []core.Question
	for i := range records {
		r := &records[i]
		if r.Kind != record.KindQuestion || last[r.Name] != i {
			continue
		}
		q := core.Question{ID: r.Name, Text: r.Message()}
		if r.Err != nil {
			q.Refused = r.Err.Error()
		}
		open = append(open, q)
	}
	return open
}
