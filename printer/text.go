package printer

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/reprise-go/reprise/record"
)

// Limits on the length of texts, in characters.
const (
	maxName    = 80
	maxMessage = 200  // an error, a message, a preview
	maxWarning = 1000 // a warning, which ends with what to do
	maxKey     = 40
	maxValue   = 80
	maxCommand = 1000
)

// Limits on the indentation and the metadata of a log line.
const (
	maxDepth    = 32
	maxMetadata = 16
)

// A theme determines how lines are decorated.
type theme struct {
	*symbols
	colors bool
	guides bool // nested lines begin with guides

	command string // shown in hints; if empty, there are no hints
}

// text builds lines. Text from outside this package must be added with clean.
type text struct {
	*theme
	buf   []byte
	asked questionState
}

// A questionState says whether the question that a call waits for has been written or answered.
type questionState uint8

const (
	questionNew      questionState = iota
	questionWritten                // written and not answered
	questionAnswered               // answered since the run began or was resumed
)

func (t *text) add(parts ...string) {
	for _, part := range parts {
		t.buf = append(t.buf, part...)
	}
}

func (t *text) clean(s string, limit int) {
	t.buf = appendClean(t.buf, s, limit, t.ellipsis)
}

// cleanOr adds s, or fallback if s is empty after cleaning.
func (t *text) cleanOr(s string, limit int, fallback string) {
	before := len(t.buf)
	t.clean(s, limit)
	if len(t.buf) == before {
		t.add(fallback)
	}
}

func (t *text) name(before, name, after string) {
	t.add(before)
	t.clean(name, maxName)
	t.add(after)
}

// message adds before and s. It adds nothing if s is empty after cleaning.
func (t *text) message(before, s string) { t.upTo(maxMessage, before, s) }

// upTo is like message, but with a limit other than maxMessage.
func (t *text) upTo(limit int, before, s string) {
	begin := len(t.buf)
	t.add(before)
	start := len(t.buf)
	t.clean(s, limit)
	if len(t.buf) == start {
		t.buf = t.buf[:begin]
	}
}

// cause adds an error's text. fmt.Sprint recovers if the Error method panics.
func (t *text) cause(err error) {
	if err != nil {
		t.message(" - ", fmt.Sprint(err))
	}
}

// begin begins a line with a mark.
func (t *text) begin(m mark) {
	t.paint(m.style, m.symbol)
	t.add(" ")
}

// beginContinuation begins a continuation line.
func (t *text) beginContinuation(m mark) {
	t.add("  ")
	t.begin(m)
}

// addIndented adds complete lines at the given depth.
func (t *text) addIndented(depth int, lines []byte) {
	for line := range bytes.Lines(lines) {
		t.indent(depth)
		t.buf = append(t.buf, line...)
	}
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

// finish ends the first line of a record.
func (t *text) finish(r *record.Record) {
	if r.Replayed && r.Status != record.StatusRecovered { // RECOVERED already implies it
		t.add(" (replayed)")
	}
	t.end()
}

// state adds the status, message and error of a record that has no other text.
func (t *text) state(r *record.Record) {
	if r.Status != 0 && r.Status != record.StatusRecorded {
		t.tag(styleOf(r.Status), strings.ToUpper(r.Status.String()))
	}
	t.message(" ", r.Message())
	t.cause(r.Err)
}

// count returns a number with its noun, such as "1 retry" or "2 retries".
func count(n int, one, many string) string {
	if n != 1 {
		one = many
	}
	return strconv.Itoa(n) + " " + one
}

func money(cost float64) string { return strconv.FormatFloat(cost, 'g', 6, 64) }

func (t *text) usage(r *record.Record) {
	if r.Detail == nil || r.Detail.Usage.IsZero() {
		return
	}
	u := &r.Detail.Usage
	if n := u.TotalTokens(); n != 0 {
		t.add(t.separator, estimateMark(u), count(n, "token", "tokens"))
	}
	if u.Cost != 0 {
		t.add(t.separator, "cost ", estimateMark(u), money(u.Cost))
	}
}

// attributes adds the metadata of the attempt that r ends, sorted by key. For a model, it leaves
// out those that are the same on most lines, or that are useful only for looking something up.
func (t *text) attributes(r *record.Record) {
	if r.Detail == nil {
		return
	}
	attributes := r.Detail.Metadata
	if r.Kind == record.KindLLM {
		attributes = maps.Clone(attributes)
		maps.DeleteFunc(attributes, func(key string, value any) bool {
			switch key {
			case "provider", "server_address", "server_port", "response_id":
				return true
			case "model": // the line's label already shows it
				return value == r.Name
			}
			return false
		})
		if seconds, ok := attributes["first_token"].(float64); ok {
			attributes["first_token"] = "<0.001"
			if seconds >= 0.001 {
				attributes["first_token"] = strconv.FormatFloat(seconds, 'g', 3, 64)
			}
		}
	}
	if len(attributes) > 0 {
		t.add(t.separator)
		t.pairs(attributes, "")
	}
}

// pairs adds the entries of m, sorted by key. Each entry is preceded by before.
func (t *text) pairs(m map[string]any, before string) {
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			before = " "
		}
		t.add(before)
		if i == maxMetadata {
			t.add(t.ellipsis)
			break
		}
		t.clean(key, maxKey)
		t.add("=")
		t.clean(shortValue(m[key]), maxValue)
	}
}

// estimateMark returns the prefix for a value in u: "~" if u is estimated.
func estimateMark(u *record.Usage) string {
	if u.Estimated {
		return "~"
	}
	return ""
}

// words returns the reason in plain words.
func words(reason record.Reason) string {
	switch reason {
	case record.ReasonRetryAfterTooLong:
		return "retry-after too long"
	case record.ReasonCondition:
		return "postcondition"
	}
	return strings.ReplaceAll(reason.String(), "_", " ")
}
