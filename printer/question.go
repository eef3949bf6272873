package printer

import (
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// question writes a question, the reason if it is asked again, and the command that
// answers it.
func (t *text) question(r *record.Record) {
	t.begin(mark{t.suspended, paused})
	t.paint(paused, "QUESTION")
	t.message(" ", r.Name)
	t.message(": ", r.Message())
	t.cause(r.Err)
	t.finish(r)
	q := core.Question{ID: r.Name, Awaits: r.Awaits()}
	if r.Detail != nil {
		q.Schema, q.InDoubt = r.Detail.Schema, r.Detail.InDoubt
	}
	if q.Awaits == record.AwaitDecision && q.InDoubt != nil {
		t.preview("input: ", record.Preview(q.InDoubt.Input))
	}
	if q.Awaits != record.AwaitTime { // nobody has to answer a sleep
		t.hint(r.RunID, q)
	}
}

// hint writes the command that answers a question, preceded by a description of the
// possible answers.
func (t *text) hint(runID string, q core.Question) {
	words, arguments := HowToAnswer(runID, q)
	if arguments == "" || t.command == "" {
		return
	}
	t.beginContinuation(mark{t.note, faint})
	if words != "" {
		t.add("answer ")
		t.clean(words, maxMessage)
		t.add(": ")
	}
	t.paint(faint, t.command, " ", arguments)
	t.end()
}

// listHint writes the command that lists the questions of a run. It is used where the
// schema of the answer is not known.
func (t *text) listHint(runID string) {
	run := shellWord(runID)
	if run == "" || t.command == "" {
		return
	}
	t.beginContinuation(mark{t.note, faint})
	t.paint(faint, "how to answer: ", t.command, " questions ", run)
	t.end()
}

// awaitedQuestion returns the ID of the question that a call waits for. It returns "" if the
// call waits for none.
func awaitedQuestion(r *record.Record) string {
	if e := r.Interrupt(); e != nil && r.Status == record.StatusAwaiting && r.Kind.IsCall() {
		return e.Question
	}
	return ""
}

// maxAsked is the maximum number of questions remembered. A question that was forgotten
// may be written again.
const maxAsked = 1 << 12

// questions records the questions written since their run began or was resumed, by run
// and ID. It ensures that each question is written once in that time.
type questions struct {
	written map[string]map[string]bool
	n       int
}

// add updates the set from a record and the question that its call waits for, if any.
// It reports whether that question has already been written.
func (q *questions) add(r *record.Record, awaited string) (before bool) {
	switch {
	case r.Kind == record.KindRun:
		q.n -= len(q.written[r.RunID])
		delete(q.written, r.RunID)
	case r.Kind == record.KindQuestion:
		q.remember(r.RunID, r.Name)
	case r.Kind == record.KindAnswer && q.written[r.RunID][r.Name]:
		q.n--
		if delete(q.written[r.RunID], r.Name); len(q.written[r.RunID]) == 0 {
			delete(q.written, r.RunID)
		}
	case awaited != "":
		before = q.written[r.RunID][awaited]
		q.remember(r.RunID, awaited)
	}
	return before
}

func (q *questions) remember(run, id string) {
	if q.written[run][id] {
		return
	}
	if q.written == nil || q.n >= maxAsked {
		q.written, q.n = make(map[string]map[string]bool), 0
	}
	if q.written[run] == nil {
		q.written[run] = make(map[string]bool)
	}
	q.written[run][id] = true
	q.n++
}

// answer writes the record of an answer.
func (t *text) answer(r *record.Record) {
	t.begin(mark{t.note, faint})
	t.paint(faint, "ANSWER")
	t.message(" to ", r.Name)
	t.message(" by ", r.AnsweredBy())
	t.state(r)
	t.finish(r)
}

// awaiting adds the ID of the question that a call waits for. It adds the text of the
// question if that has not been written.
func (t *text) awaiting(r *record.Record) {
	e := r.Interrupt()
	if e == nil {
		t.message(" ", r.Message())
		t.cause(r.Err)
		return
	}
	t.message(" ", e.Question)
	if !t.asked || e.Question == "" {
		t.message(": ", e.Message)
	}
}
