package record

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// A Question is a question that a run asked, in the form in which it was last asked.
type Question struct {
	ID       string
	Text     string
	Redacted bool // Text is not the original; see [Record.Redacted]
	Awaits   AwaitKind
	Address  Address   // address of the call that asks
	Asked    time.Time // time according to the clock of the process
	Due      time.Time // when the default answer is used; zero for no default
	Seq      uint64    // of the record
	Refused  error     // why the previous answer was refused; nil if there was none
	Schema   json.RawMessage
	InDoubt  *CallInDoubt // the call in doubt that the question is about; nil if none

	moot bool // the call that asked has ended, so nobody reads the answer
}

// questions holds the questions without an answer. A question is closed when its call ends. It is
// opened again if the call is entered again and waits for the answer.
type questions struct {
	byID   map[string]*Question
	inside map[string]int // number of open questions in each call, including nested calls, by the call's path
}

// ask adds a question, replacing any earlier one with the same ID.
func (q *questions) ask(r *Record) *Question {
	asked := &Question{ID: r.Name, Text: r.Message(), Awaits: r.Awaits(), Address: r.Address, Asked: r.Time, Seq: r.Seq, Refused: r.Err}
	if r.Delay > 0 {
		asked.Due = r.Time.Add(r.Delay)
	}
	if r.Detail != nil {
		asked.Schema, asked.InDoubt, asked.Redacted = r.Detail.Schema, r.Detail.InDoubt, r.Detail.Redacted
	}
	if before := q.byID[asked.ID]; before != nil {
		q.drop(before)
	}
	if q.byID == nil {
		q.byID = make(map[string]*Question)
	}
	if q.inside == nil {
		q.inside = make(map[string]int)
	}
	q.byID[asked.ID] = asked
	q.count(asked, 1)
	return asked
}

// answer closes the question that r answers.
func (q *questions) answer(r *Record, c *Transition) {
	answered := q.byID[r.Name]
	if answered == nil {
		c.Ignored = true
		return
	}
	if !answered.moot {
		c.Closed = append(c.Closed, answered)
	}
	q.drop(answered)
}

// reopen opens a question again when a call waits for its answer again. It returns nil unless the
// question was closed without an answer.
func (q *questions) reopen(id string) *Question {
	asked := q.byID[id]
	if asked == nil || !asked.moot {
		return nil
	}
	asked.moot = false
	q.count(asked, 1)
	return asked
}

func (q *questions) drop(asked *Question) {
	if !asked.moot {
		q.count(asked, -1)
	}
	delete(q.byID, asked.ID)
}

// count adds n to the number of open questions in the call that asked, and in each call that
// contains it.
func (q *questions) count(asked *Question, n int) {
	for path := asked.Address.String(); path != ""; {
		if q.inside[path] += n; q.inside[path] <= 0 {
			delete(q.inside, path)
		}
		scope := path[:max(strings.LastIndexByte(path, '/'), 0)]
		path = withoutAttempt(scope)
	}
}

// withoutAttempt returns the path of the call to which the scope belongs.
func withoutAttempt(scope string) string {
	if at := strings.LastIndexByte(scope, '@'); at > strings.LastIndexByte(scope, '/') {
		return scope[:at]
	}
	return scope
}

// closeInside closes the questions of a call that has ended, and of the calls inside it.
func (q *questions) closeInside(a Address, c *Transition) {
	if len(q.inside) == 0 {
		return
	}
	path := a.String()
	if q.inside[path] == 0 {
		return
	}
	q.closeIf(c, func(asked *Question) bool {
		return asked.Address == a || isWithin(asked.Address.Scope(), path)
	})
}

// closeInsideAttempt closes the questions that were asked inside a failed attempt, because the next
// attempt asks its own questions.
func (q *questions) closeInsideAttempt(r *Record, c *Transition) {
	if len(q.inside) == 0 || q.inside[r.Address.String()] == 0 {
		return
	}
	path := r.Address.Path(r.Attempt)
	q.closeIf(c, func(asked *Question) bool {
		scope := asked.Address.Scope()
		return scope == path || strings.HasPrefix(scope, path+"/")
	})
}

// isWithin reports whether the scope belongs to the call with the given path, or to a call inside
// it.
func isWithin(scope, path string) bool {
	rest, ok := strings.CutPrefix(scope, path)
	return ok && (rest == "" || rest[0] == '/' || rest[0] == '@')
}

func (q *questions) closeAll(c *Transition) { q.closeIf(c, func(*Question) bool { return true }) }

func (q *questions) closeIf(c *Transition, isOver func(*Question) bool) {
	for _, asked := range q.byID {
		if !asked.moot && isOver(asked) {
			q.count(asked, -1)
			asked.moot = true
			c.Closed = append(c.Closed, asked)
		}
	}
}

func (q *questions) clone() questions {
	c := questions{byID: make(map[string]*Question, len(q.byID)), inside: maps.Clone(q.inside)}
	for id, asked := range q.byID {
		kept := *asked
		c.byID[id] = &kept
	}
	return c
}

// list returns the open questions in the order in which they were asked.
func (q *questions) list(sleeps bool) (open []*Question) {
	for _, asked := range q.byID {
		if !asked.moot && (sleeps || asked.Awaits.NeedsAnswer()) {
			open = append(open, asked)
		}
	}
	slices.SortFunc(open, func(a, b *Question) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), strings.Compare(a.ID, b.ID)) })
	return open
}
