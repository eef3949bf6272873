package printer

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/core"
)

// Where texts are cut, in characters.
const (
	maxName    = 80
	maxMessage = 200 // an error, a message, a preview
	maxKey     = 40
	maxValue   = 80
	maxCommand = 1000
)

// More than that is not indented, nor told of a log.
const (
	maxDepth    = 32
	maxMetadata = 16
)

// look is how lines are decorated.
type look struct {
	*symbols
	colors bool
	guides bool // lines show what they are inside of
	// command answers questions; empty for none.
	command string
}

// text builds the lines of one record. What did not come from this package is
// added with clean.
type text struct {
	*look
	buf []byte
	// asked says that the question that a call waits for was told before.
	asked bool
}

func (t *text) add(parts ...string) {
	for _, part := range parts {
		t.buf = append(t.buf, part...)
	}
}

func (t *text) clean(s string, limit int) {
	t.buf = appendClean(t.buf, s, limit, t.ellipsis)
}

// cleanOr adds otherwise if nothing is left of s.
func (t *text) cleanOr(s string, limit int, otherwise string) {
	before := len(t.buf)
	t.clean(s, limit)
	if len(t.buf) == before {
		t.add(otherwise)
	}
}

func (t *text) name(before, name, after string) {
	t.add(before)
	t.clean(name, maxName)
	t.add(after)
}

// message adds s, if there is anything in it, with before in front.
func (t *text) message(before, s string) {
	whole := len(t.buf)
	t.add(before)
	start := len(t.buf)
	t.clean(s, maxMessage)
	if len(t.buf) == start {
		t.buf = t.buf[:whole]
	}
}

// cause adds the text of an error, also of one whose Error method panics.
func (t *text) cause(err error) {
	if err != nil {
		t.message(" - ", fmt.Sprint(err))
	}
}

// begin begins a line at a depth.
func (t *text) begin(depth int, m mark) {
	t.indent(depth)
	t.paint(m.style, m.symbol)
	t.add(" ")
}

// beginBelow begins a line that says more about the one above, which is at the
// depth.
func (t *text) beginBelow(depth int, m mark) {
	t.indent(depth)
	if depth < maxDepth {
		t.add("  ")
	}
	t.paint(m.style, m.symbol)
	t.add(" ")
}

func (t *text) indent(depth int) {
	depth = min(depth, maxDepth)
	if depth == 0 {
		return
	}
	if !t.guides {
		for range depth {
			t.add("  ")
		}
		return
	}
	t.paint(faint, strings.Repeat(t.guide[:len(t.guide)-1], depth))
}

func (t *text) end() { t.add("\n") }

// finish ends the line that a record surely has.
func (t *text) finish(r *core.Record) {
	if r.Replayed && r.Status != core.StatusRecovered { // which says so
		t.add(" (replayed)")
	}
	t.end()
}

// state names the status of what has no text of its own, and what is told
// about it.
func (t *text) state(r *core.Record) {
	if r.Status != 0 && r.Status != core.StatusRecorded {
		t.tag(styleOf(r.Status), strings.ToUpper(r.Status.String()))
	}
	t.message(" ", r.Message())
	t.cause(r.Err)
}

// count is "1 retry" or "2 retries".
func count(n int, one, many string) string {
	if n != 1 {
		one = many
	}
	return strconv.Itoa(n) + " " + one
}

func money(cost float64) string { return strconv.FormatFloat(cost, 'g', 6, 64) }

func (t *text) usage(r *core.Record) {
	if r.Detail == nil || r.Detail.Usage.IsZero() {
		return
	}
	if n := r.Detail.Usage.TotalTokens(); n != 0 {
		t.add(t.separator, count(n, "token", "tokens"))
	}
	if cost := r.Detail.Usage.Cost; cost != 0 {
		t.add(t.separator, "cost ", money(cost))
	}
}

// words is the reason as people say it.
func words(reason core.Reason) string {
	switch reason {
	case core.ReasonRetryAfterTooLong:
		return "retry-after too long"
	case core.ReasonCondition:
		return "postcondition"
	}
	return strings.ReplaceAll(reason.String(), "_", " ")
}
