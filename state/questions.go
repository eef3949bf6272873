package state

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// Ask implements engine.Run.
func (r *run) Ask(s *engine.Scope, q engine.Question, def engine.DefaultAnswer, claims []record.Claim) (engine.Asked, error) {
	r.mu.Lock()
	before, asked := r.askedBefore(s, q)
	answer, answered := r.questions.answers[q.ID]
	ended := r.questions.ended[q.ID]
	answered = asked && (answered || r.isEndOf(s, ended))
	isOther := asked && before.text != q.Text && q.Awaits != record.AwaitTime && // for a sleep, the recorded end counts
		r.restored != nil && r.config.divergence != DivergenceRerun
	if !isOther {
		delete(r.questions.waits, q.ID) // the answer may have arrived in the meantime
	}
	r.mu.Unlock()
	if isOther {
		d := &core.DivergenceError{
			RunID: r.settings.RunID, How: "question", Address: s.Address(), Scope: s.Path(),
			Recorded: strconv.Quote(before.text), Asked: strconv.Quote(q.Text),
			Hint: "an answer to one question is not used for the other",
		}
		if err := r.handleDivergence(d); err != nil {
			return engine.Asked{}, err
		}
	}
	switch {
	case answered && answer == nil && ended.err != nil:
		return engine.Asked{Ended: ended.err}, nil
	case answered && q.Refused == "":
		return engine.Asked{Answer: answer}, nil
	case asked && !answered && before.isDue() && !r.settings.Replays:
		return r.answerByDefault(s, q.ID, def)
	case asked && !answered && q.Awaits == record.AwaitTime && before.isAhead() && !r.settings.Replays: // the sleep now begins again
	case asked && !answered && ended.err != nil && !r.settings.Replays: // an earlier attempt's context ended the sleep
		def.After = max(time.Until(before.due), 1)
	case asked && !answered && q.Awaits == record.AwaitSignal:
		return r.receive(s, q, false)
	case asked && !answered:
		return r.waitFor(q.ID, false), nil
	}
	rec := record.Record{
		Time: now(), Address: s.Address(), Name: q.ID, Kind: record.KindQuestion, Status: record.StatusAwaiting, Delay: def.After,
		Detail: &record.Detail{Message: q.Text, Unrecorded: claims, Awaits: q.Awaits, Schema: q.Schema, InDoubt: q.InDoubt},
	}
	r.describeInDoubt(q.InDoubt, s.Address())
	if q.Refused != "" {
		rec.Err, rec.Class = errors.New(q.Refused), record.ClassInvalid
		if asked && !before.due.IsZero() { // the new question gets only the remaining time
			rec.Delay = max(before.due.Sub(rec.Time), 1)
		}
	}
	if err := r.Append(s, rec); err != nil {
		return engine.Asked{}, err
	}
	if q.Awaits == record.AwaitSignal {
		return r.receive(s, q, true)
	}
	return r.waitFor(q.ID, true), nil
}

// askedBefore returns the question as it was last asked. counts is false if the question was not
// asked before, or was asked only by a refused program or by calls before a divergence. r.mu must
// be held.
func (r *run) askedBefore(s *engine.Scope, q engine.Question) (before askedQuestion, counts bool) {
	before = r.questions.asked[q.ID]
	if before.text != q.Text && r.restored.isRefused(before.generation) {
		return before, false // a changed program asked it in another branch before being refused
	}
	return before, before.seq > r.rerun.within(s)
}

// waitFor records that the run is waiting for the answer to the question.
func (r *run) waitFor(id string, recorded bool) engine.Asked {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.questions.waits == nil {
		r.questions.waits = make(map[string]bool)
	}
	r.questions.waits[id] = true
	return engine.Asked{Due: r.questions.asked[id].due, Recorded: recorded, InMemory: !r.keeper.isStored() && r.restored == nil}
}

// answerByDefault records the default as the answer to a question whose time has run out, unless
// another answer arrived first.
func (r *run) answerByDefault(s *engine.Scope, id string, def engine.DefaultAnswer) (engine.Asked, error) {
	if err := r.Append(s, answerRecord(now(), s.Address(), id, "", def.Encoded)); err != nil {
		return engine.Asked{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return engine.Asked{Answer: r.questions.answers[id]}, nil
}

// due returns the time at which a paused run can continue even if no further answer arrives. If an
// answer arrived after the run's calls had stopped, due returns the current time. Otherwise it
// returns the earliest time at which an open question gets its default answer or a parked call
// makes its next attempt. If the run can continue only with an answer, due returns the zero Time.
// r.mu must be held.
func (r *run) due() time.Time {
	if !r.rootCalls.made && !r.isCancelled() {
		return r.found.Due // nothing has changed it
	}
	for id := range r.questions.waits {
		if _, answered := r.questions.answers[id]; answered {
			return now()
		}
	}
	due := r.questions.parked
	for _, q := range r.ledger.Questions(true) { // leaves out the questions of calls that have ended since
		if r.questions.waits[q.ID] && !q.Due.IsZero() && (due.IsZero() || q.Due.Before(due)) {
			due = q.Due
		}
	}
	return due
}

// describeInDoubt adds what earlier openings recorded about the call: when it last began and, if it
// was kept, the call's input. It leaves out anything that cannot be read.
func (r *run) describeInDoubt(c *record.CallInDoubt, a record.Address) {
	if c == nil || r.restored == nil {
		return
	}
	r.mu.Lock()
	var first, entered uint64
	if t := r.restored.calls[a]; t != nil {
		first, entered = t.first, t.entered
	}
	r.mu.Unlock()
	if rec, err := r.restored.found.Record(entered); err == nil && c.Began.IsZero() {
		c.Began = rec.Time
	}
	if rec, err := r.restored.found.Record(first); err == nil && rec.Detail != nil {
		c.Input = rec.Detail.Input
	}
}

// endedSleep is a sleep that ended early because the handler's own context ended.
type endedSleep struct {
	seq     uint64
	attempt int
	err     error
}

// isEndOf reports whether the sleep ended in the attempt s. A later attempt sleeps for the
// remaining time. So does a call that is made again by a retry of the run, unless the call
// continued after the sleep and made other calls. r.mu must be held.
func (r *run) isEndOf(s *engine.Scope, ended endedSleep) bool {
	if ended.err == nil || ended.attempt != s.Attempt() {
		return false
	}
	if r.restored == nil || ended.seq > r.restored.retryTo {
		return true
	}
	return s.Spec().Kind.IsEntered() && r.restored.laterCalls()[s.Path()].any > ended.seq
}

// askedQuestion is a question as it was most recently asked.
type askedQuestion struct {
	seq        uint64
	time       time.Time
	generation uint64
	text       string
	due        time.Time // when the question gets its default answer; zero if it has none
}

func (q *askedQuestion) isDue() bool { return !q.due.IsZero() && !time.Now().Before(q.due) }

// isAhead reports whether the clock was set back after the question was recorded. In that case, a
// sleep is recorded again, so that it does not last until the clock catches up.
func (q *askedQuestion) isAhead() bool { return q.time.After(time.Now()) }

// questions holds a run's questions, their answers, and what the run waits for. It is guarded by
// the run's lock.
type questions struct {
	asked   map[string]askedQuestion // by ID
	answers map[string][]byte        // by ID
	ended   map[string]endedSleep    // by ID
	waits   map[string]bool          // IDs of the questions waiting for an answer in this opening of the run
	parked  time.Time                // the earliest time at which a call parked in this opening is due
	signals signals
}

// follow adds the record, whose number is seq, if it is a question or an answer. The first answer
// to a question counts.
func (q *questions) follow(rec *record.Record, seq uint64) {
	switch {
	case rec.Kind == record.KindQuestion:
		if q.asked == nil {
			q.asked = make(map[string]askedQuestion)
		}
		q.asked[rec.Name] = askedQuestion{seq, rec.Time, rec.Generation, rec.Message(), dueOf(rec)}
		delete(q.answers, rec.Name) // the previous answer, if any, did not fit the question
		delete(q.ended, rec.Name)
	case rec.Kind == record.KindAnswer && rec.Err != nil:
		if q.ended == nil {
			q.ended = make(map[string]endedSleep)
		}
		q.ended[rec.Name] = endedSleep{seq, rec.Attempt, rec.Err}
	case rec.Kind == record.KindAnswer:
		q.signals.take(rec)
		if q.answers == nil {
			q.answers = make(map[string][]byte)
		}
		if _, answered := q.answers[rec.Name]; !answered {
			q.answers[rec.Name] = rec.Encoded()
		}
	}
}

// dueOf returns when a question gets its default answer, or the zero Time if it has none.
func dueOf(rec *record.Record) time.Time {
	if rec.Delay <= 0 {
		return time.Time{}
	}
	return rec.Time.Add(rec.Delay)
}

// Questions returns the open questions of the run, in the order in which they were asked. They are
// not redacted, because they are shown to the people who answer them. Questions returns an error if
// the store cannot be read.
func (st *ExecutionState) Questions(ctx context.Context) ([]core.Question, error) {
	records, err := st.run.readRecords(ctx)
	if err != nil {
		return nil, err
	}
	return openQuestions(records), nil
}

// Questions returns the open questions of a stored run, in the order in which they were asked. A
// question whose answer was posted but is not recorded yet is no longer open. Calls that wait for a
// signal or a time are not listed, because no one has to answer them.
func Questions(ctx context.Context, store snapshot.Store, runID string) ([]core.Question, error) {
	if err := checkStore(store); err != nil {
		return nil, err
	}
	found, waiting, err := loadWithMessages(ctx, store, runID)
	if err != nil {
		return nil, fmt.Errorf("state: questions of run %s: %w", runID, err)
	}
	return unansweredQuestions(found, waiting), nil
}

// loadWithMessages returns a run and its waiting messages. It reads the messages first. A process
// that handles a message records the message's effect before removing the message, so
// loadWithMessages finds either the message or its effect.
func loadWithMessages(ctx context.Context, store snapshot.Store, runID string) (*snapshot.Snapshot, []snapshot.Message, error) {
	waiting, err := store.Messages(ctx, runID)
	if err != nil {
		return nil, nil, err
	}
	found, err := load(ctx, store, runID)
	return found, waiting, err
}

// unansweredQuestions returns the run's questions that have neither a recorded nor a posted answer.
// If a cancel is pending, it returns only those asked by compensations. Once the run is cancelled,
// it returns none.
func unansweredQuestions(found *snapshot.Snapshot, waiting []snapshot.Message) []core.Question {
	return slices.DeleteFunc(openQuestions(found.Records), func(q core.Question) bool {
		return checkNotMoot(found, waiting, q.ID) != nil || slices.ContainsFunc(waiting, func(m snapshot.Message) bool {
			return m.IsAnswer() && m.Record.Name == q.ID
		})
	})
}

// checkNotMoot returns a *CancelledError if an answer to the question would have no effect because
// the run was cancelled, or will be cancelled as soon as its calls are compensated.
func checkNotMoot(found *snapshot.Snapshot, waiting []snapshot.Message, question string) error {
	if found.Status == snapshot.StatusCancelled {
		return cancelledError(found.RunID, found.Stop)
	}
	i := slices.IndexFunc(waiting, func(m snapshot.Message) bool { return m.IsCancel() })
	if i < 0 || checkNotEnded(&found.Info) != nil || isOfCompensation(question) {
		return nil
	}
	return cancelledError(found.RunID, stopOf(waiting[i].Record.Interrupt()))
}

// openQuestions returns the questions that can still be answered: those that have not been answered
// since they were last asked, and whose calls have not ended.
func openQuestions(records []record.Record) []core.Question {
	var open []core.Question
	for _, asked := range ledgerOf(records).Questions(false) {
		q := core.Question{ID: asked.ID, Text: asked.Text, Awaits: asked.Awaits, Due: asked.Due, Schema: asked.Schema, InDoubt: asked.InDoubt}
		if asked.Refused != nil {
			q.Refused = asked.Refused.Error()
		}
		open = append(open, q)
	}
	return open
}
