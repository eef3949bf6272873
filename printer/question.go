package printer

import (
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// question writes a question and the command that answers it. If the question is asked again,
// question also writes the reason.
func (t *text) question(r *record.Record) {
	t.begin(mark{t.suspended, paused})
	switch r.Awaits() {
	case record.AwaitTime:
		t.paint(paused, "SLEEP")
	case record.AwaitSignal:
		t.paint(paused, "AWAITS SIGNAL")
	default:
		t.paint(paused, "QUESTION")
	}
	t.message(" ", r.Name)
	t.message(": ", r.Message())
	t.cause(r.Err)
	t.finish(r)
	q := core.Question{ID: r.Name, Awaits: r.Awaits()}
	if r.Detail != nil {
		q.Schema, q.InDoubt = r.Detail.Schema, r.Detail.InDoubt
	}
	if q.Awaits == record.AwaitDecision && q.InDoubt != nil {
		t.preview("cause: ", q.InDoubt.Cause)
		t.preview("input: ", record.Preview(q.InDoubt.Input))
		t.preview("idempotency key: ", q.InDoubt.IdempotencyKey)
	}
	if q.Awaits != record.AwaitTime { // nobody has to answer a sleep
		t.hint(r.RunID, q)
	}
}

// hint writes the command that answers a question, preceded by a description of the
// possible answers. If there are several commands, each has its own line.
func (t *text) hint(runID string, q core.Question) {
	words, commands := HowToAnswer(runID, q)
	if len(commands) == 0 || t.command == "" {
		return
	}
	t.beginContinuation(mark{t.note, faint})
	if words != "" {
		t.add("answer ")
		t.clean(words, maxMessage)
		t.add(":")
	}
	for _, command := range commands {
		switch {
		case len(commands) > 1:
			t.end()
			t.beginContinuation(mark{t.note, faint})
		case words != "":
			t.add(" ")
		}
		t.paint(faint, t.command, " ", command)
	}
	t.end()
}

// listHint writes the command that lists the questions of a run. It is used if the schema of the
// answer is not known.
func (t *text) listHint(runID string) {
	run := shellWord(runID)
	if run == "" || t.command == "" {
		return
	}
	t.beginContinuation(mark{t.note, faint})
	t.paint(faint, "how to answer: ", t.command, " questions ", run)
	t.end()
}

// awaitedQuestion returns the ID of the question that a call waits for, or "" if it does not wait
// for any.
func awaitedQuestion(r *record.Record) string {
	if e := r.Interrupt(); e != nil && r.Status == record.StatusAwaiting && r.Kind.IsCall() {
		return e.Question
	}
	return ""
}

// maxAsked is the maximum number of questions remembered. A question that was forgotten
// may be written again.
const maxAsked = 1 << 12

// questions records, by run and ID, which questions have been written since their run began or was
// resumed, and whether each of them has been answered. It ensures that in this time a question is
// written only once, and not after it was answered.
type questions struct {
	answered map[string]map[string]bool
	n        int
}

// add records what r says about questions. awaited is the ID of the question that r's call waits
// for, or empty. add reports whether that question was written before, and whether it was answered.
func (q *questions) add(r *record.Record, awaited string) (before, answered bool) {
	switch {
	case r.Kind == record.KindRun:
		q.n -= len(q.answered[r.RunID])
		delete(q.answered, r.RunID)
		if r.Status == record.StatusStarted && r.Reason == record.ReasonRetry {
			q.remember(r.RunID, recalledFailure, false) // a failure that the retry does not repeat was handled: no hint
		}
	case r.Kind == record.KindQuestion, r.Kind == record.KindAnswer:
		q.remember(r.RunID, r.Name, r.Kind == record.KindAnswer)
	case awaited != "":
		answered, before = q.answered[r.RunID][awaited]
		q.remember(r.RunID, awaited, answered)
	}
	return before, answered
}

func (q *questions) remember(run, id string, answered bool) {
	if _, known := q.answered[run][id]; !known {
		if q.answered == nil || q.n >= maxAsked {
			q.answered, q.n = make(map[string]map[string]bool), 0
		}
		if q.answered[run] == nil {
			q.answered[run] = make(map[string]bool)
		}
		q.n++
	}
	q.answered[run][id] = answered
}

// answer writes the record of an answer.
func (t *text) answer(r *record.Record) {
	t.begin(mark{t.note, faint})
	t.paint(faint, "ANSWER")
	t.message(" to ", r.Name)
	t.message(" by ", r.AnsweredBy())
	if isSet(r) {
		t.origin(r)
	}
	t.state(r)
	t.finish(r)
}

// awaiting adds the ID of the question that a call waits for. It also adds the question's text if
// that was not written before, or a note that the question was answered in the meantime.
func (t *text) awaiting(r *record.Record) {
	e := r.Interrupt()
	if e == nil {
		t.message(" ", r.Message())
		t.cause(r.Err)
		return
	}
	t.message(" ", e.Question)
	switch {
	case e.Question == "" || t.asked == questionNew:
		t.message(": ", e.Message)
	case t.asked == questionAnswered:
		t.add(": answered; continues when the run is opened again")
	}
}
