package printer

import (
	"strings"

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
	run, id := shellWord(r.RunID), shellWord(r.Name)
	if run == "" || id == "" {
		return // it could not be typed
	}
	t.beginBelow(depth, mark{t.note, faint})
	t.paint(faint, "reprise answer ", run, " ", id, " JSON")
	t.end()
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

func isAwkward(c rune) bool { return c < ' ' || c >= 0x7f || strings.ContainsRune("'\"\\`$!", c) }

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

// awaiting tells which question a call waits for.
func (t *text) awaiting(r *core.Record) {
	e := r.Interrupt()
	if e == nil {
		t.message(" ", r.Message())
		t.cause(r.Err)
		return
	}
	t.message(" ", e.Question)
	t.message(": ", e.Message)
}
