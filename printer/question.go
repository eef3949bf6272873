package printer

import (
	"strings"
	"unicode"

	"github.com/reprise-go/reprise/core"
)

// question writes what somebody is asked, and how a stored run is told the
// answer.
func (t *text) question(r *core.Record) {
	depth := inside(r.Address)
	t.begin(depth, mark{t.suspended, paused})
	t.paint(paused, "QUESTION")
	t.message(" ", r.Name)
	t.message(": ", r.Message())
	t.finish(r)
	t.hint(depth, r.RunID, r.Name)
}

// hint writes how a question is answered, below the line that tells it.
func (t *text) hint(depth int, runID, question string) {
	run, id := shellWord(runID), shellWord(question)
	if run == "" || id == "" || t.command == "" {
		return // it could not be typed
	}
	t.beginBelow(depth, mark{t.note, faint})
	t.paint(faint, t.command, " answer ", run, " ", id, " JSON")
	t.end()
}

// awaited is the question that a call waits for, empty if r tells of none.
func awaited(r *core.Record) string {
	if e := r.Interrupt(); e != nil && r.Status == core.StatusAwaiting && r.Kind.IsCall() {
		return e.Question
	}
	return ""
}

// maxAsked is how many questions are remembered at most. One that was
// forgotten is told once more.
const maxAsked = 1 << 12

// questions remembers which questions were told since their run began or went
// on: by run, by ID. Each is told once in that time, with how it is answered.
type questions struct {
	told map[string]map[string]bool
	n    int
}

// take takes in a record, of a call that waits for the question if that is not
// empty. It reports whether it was told before.
func (q *questions) take(r *core.Record, awaited string) (before bool) {
	switch {
	case r.Kind == core.KindRun:
		q.n -= len(q.told[r.RunID])
		delete(q.told, r.RunID)
	case r.Kind == core.KindQuestion:
		q.add(r.RunID, r.Name)
	case r.Kind == core.KindAnswer && q.told[r.RunID][r.Name]:
		q.n--
		if delete(q.told[r.RunID], r.Name); len(q.told[r.RunID]) == 0 {
			delete(q.told, r.RunID)
		}
	case awaited != "":
		before = q.told[r.RunID][awaited]
		q.add(r.RunID, awaited)
	}
	return before
}

func (q *questions) add(run, id string) {
	if q.told[run][id] {
		return
	}
	if q.told == nil || q.n >= maxAsked {
		q.told, q.n = make(map[string]map[string]bool), 0
	}
	if q.told[run] == nil {
		q.told[run] = make(map[string]bool)
	}
	q.told[run][id] = true
	q.n++
}

// shellWord is s as it is typed as one argument, empty where that is not the
// same for every shell.
func shellWord(s string) string {
	if s == "" || len(s) > 2*maxName || s[0] == '-' || strings.ContainsFunc(s, isAwkward) {
		return ""
	}
	if strings.ContainsFunc(s, isSpecial) {
		return "'" + s + "'"
	}
	return s
}

func isAwkward(c rune) bool {
	return c < ' ' || c >= 0x7f && !unicode.IsLetter(c) && !unicode.IsDigit(c) || strings.ContainsRune("'\"\\`$!", c)
}

func isSpecial(c rune) bool {
	return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && !strings.ContainsRune("._/:-", c)
}

// answer writes that a question was answered.
func (t *text) answer(r *core.Record) {
	t.begin(inside(r.Address), mark{t.note, faint})
	t.paint(faint, "ANSWER")
	t.message(" to ", r.Name)
	t.state(r)
	t.finish(r)
}

// awaiting tells which question a call waits for; its text only where that was
// not told before.
func (t *text) awaiting(r *core.Record) {
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
