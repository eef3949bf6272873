package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// What answering returns, found by errors.Is.
var (
	ErrNotAsked = errors.New("state: nobody asked this question")
	ErrAnswered = errors.New("state: the question was answered before")
)

// Ask implements what core.Await needs: the answer if there is one, and else
// a record that it is waited for.
func (r *run) Ask(s *core.Scope, q core.Question) ([]byte, bool, error) {
	r.mu.Lock()
	answer, answered := r.answers[q.ID]
	asked := r.asked[q.ID] > r.rerun.within(s)
	answered = answered && asked
	r.mu.Unlock()
	switch {
	case answered && q.Refused == "":
		return answer, true, nil
	case asked && !answered:
		return nil, false, nil
	}
	rec := &core.Record{
		Time: now(), Address: s.Address(), Name: q.ID, Kind: core.KindQuestion, Status: core.StatusAwaiting,
		Detail: &core.Detail{Message: q.Text},
	}
	if q.Refused != "" {
		rec.Err, rec.Class = errors.New(q.Refused), core.ClassInvalid
	}
	return nil, false, r.Append(s, rec)
}

// questions takes in the latest record, if it is about a question. The lock is
// held.
func (r *run) questions(rec *core.Record) {
	switch rec.Kind {
	case core.KindQuestion:
		if r.asked == nil {
			r.asked = make(map[string]uint64)
		}
		r.asked[rec.Name] = uint64(r.history.len())
		delete(r.answers, rec.Name) // which was set aside, if there was one
	case core.KindAnswer:
		if r.answers == nil {
			r.answers = make(map[string][]byte)
		}
		r.answers[rec.Name] = rec.Encoded()
	}
}

// Questions returns what the run waits to be told, in the order of asking.
// They are for those who answer, and not redacted.
func (st *ExecutionState) Questions() []core.Question {
	if st == nil {
		return nil
	}
	return openQuestions(st.run.records())
}

// Questions returns what a stored run waits to be told, in the order of
// asking.
func Questions(ctx context.Context, store snapshot.Store, runID string) ([]core.Question, error) {
	found, err := store.Load(ctx, runID)
	if err != nil {
		return nil, fmt.Errorf("state: questions of run %s: %w", runID, err)
	}
	return openQuestions(found.Records), nil
}

// openQuestions are those that were not answered since they were asked last.
func openQuestions(records []core.Record) []core.Question {
	last := make(map[string]int)
	for i := range records {
		if k := records[i].Kind; k == core.KindQuestion || k == core.KindAnswer {
			last[records[i].Name] = i
		}
	}
	var open []core.Question
	for i := range records {
		r := &records[i]
		if r.Kind != core.KindQuestion || last[r.Name] != i {
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

// Answer answers a question of a stored run that nobody has open, by its ID.
// The call that asked goes on when the run is resumed. The first answer wins:
// another is [ErrAnswered]. One that turns out not to fit the type that is
// waited for is set aside then, and the question asked again. A question that
// was not asked is [ErrNotAsked], with those that were.
func Answer(ctx context.Context, store snapshot.Store, runID, questionID string, value any) (err error) {
	encoded, err := core.Encode(value)
	if err != nil {
		return fmt.Errorf("state: answer to %s: %w", questionID, err)
	}
	journal, err := store.Open(ctx, runID, snapshot.OpenOptions{})
	if err != nil {
		return fmt.Errorf("state: answer to %s in run %s: %w", questionID, runID, err)
	}
	found := journal.Restored()
	defer func() { err = errors.Join(err, journal.Close(found.Status)) }()
	rec, err := answerRecord(found.Records, questionID, encoded)
	if err != nil {
		return err
	}
	rec.Seq = found.LastSeq + 1
	if n := len(found.Records); n > 0 {
		rec.Seq = found.Records[n-1].Seq + 1
	}
	if err := journal.Append(rec); err != nil {
		return err
	}
	return journal.Sync(rec.Seq)
}

func answerRecord(records []core.Record, id string, encoded []byte) (core.Record, error) {
	var question *core.Record
	answered := false
	for i := range records {
		r := &records[i]
		if r.Name != id {
			continue
		}
		switch r.Kind {
		case core.KindQuestion:
			question, answered = r, false
		case core.KindAnswer:
			answered = true
		}
	}
	switch {
	case question == nil:
		open := openQuestions(records)
		return core.Record{}, fmt.Errorf("%w: %s; open are %v", ErrNotAsked, id, open)
	case answered:
		return core.Record{}, fmt.Errorf("%w: %s", ErrAnswered, id)
	}
	return core.Record{
		Time: time.Now().UTC().Round(0), Address: question.Address, Name: id, Kind: core.KindAnswer,
		Status: core.StatusRecorded, Detail: &core.Detail{Output: encoded},
	}, nil
}
