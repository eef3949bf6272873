package printer

import (
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/live"
	"github.com/reprise-go/reprise/record"
)

// Delta shows what a call is producing, below the live line of the call: the
// last lines of a model's answer, thoughts or tool calls, or how far a tool
// is. It vanishes when the attempt ends. Without live lines Delta does nothing.
// It is for [live.Watch]:
//
//	ctx = live.Watch(ctx, p.Delta)
//
// Records of a run with a redaction are redacted before they are published;
// deltas are not: live.Redact(redact, p.Delta) is for that.
func (p *Printer) Delta(d live.Delta) {
	if !p.live {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.texts.add(&d)
	}
}

const (
	maxTexts    = 1 << 10
	maxTail     = 2 << 10 // bytes of a text that are kept
	maxTextRows = 3       // below a live line
)

// liveText is the end of what an attempt has produced so far.
type liveText struct {
	attempt int
	part    live.Part
	index   int // of a tool call
	name    string
	tail    string
}

type textKey struct{ run, path string }

// liveTexts are those of the calls that are producing something. They have
// entries of their own since deltas may come before the record that starts
// their call.
type liveTexts map[textKey]*liveText

func (l liveTexts) add(d *live.Delta) {
	key := textKey{d.RunID, d.Address.String()}
	t := l[key]
	switch {
	case t != nil && d.Attempt < t.attempt: // it was abandoned
		return
	case d.Part == live.PartEnd:
		delete(l, key)
		return
	case t == nil || d.Part == live.PartBegin || d.Attempt > t.attempt:
		if t == nil && len(l) >= maxTexts {
			clear(l)
		}
		t = &liveText{attempt: d.Attempt}
		l[key] = t
	}
	if d.Part == live.PartProgress || d.Part != t.part || d.Index != t.index {
		t.part, t.index, t.name, t.tail = d.Part, d.Index, "", ""
	}
	if d.Name != "" {
		t.name = d.Name
	}
	t.tail += d.Text
	if cut := len(t.tail) - maxTail; cut > 0 {
		for cut < len(t.tail) && !utf8.RuneStart(t.tail[cut]) {
			cut++
		}
		t.tail = strings.Clone(t.tail[cut:])
	}
}

// end drops what an attempt has produced when a record says that it ended.
func (l liveTexts) end(r *record.Record) {
	if len(l) == 0 || !r.Kind.IsCall() || r.Status == record.StatusStarted || r.Status == record.StatusRetrying {
		return
	}
	key := textKey{r.RunID, r.Address.String()}
	if t := l[key]; t != nil && t.attempt <= r.Attempt {
		delete(l, key)
	}
}

// rows are the last rows of the text in a number of columns.
func (t *liveText) rows(columns, limit int, ellipsis string) []string {
	text := t.tail
	if t.name != "" {
		text = t.name + " " + text
	}
	var rows []string
	for line := range strings.Lines(text) {
		clean := string(appendClean(nil, line, 2*maxTail, ellipsis))
		rows = append(rows, wrap(clean, columns)...)
	}
	return rows[max(0, len(rows)-limit):]
}

// wrap breaks s into rows, between words where that is possible.
func wrap(s string, columns int) []string {
	var rows []string
	for s != "" {
		row := widths.Truncate(s, columns, "")
		if row == "" { // there is no room for a single character
			return rows
		}
		if len(row) < len(s) && s[len(row)] != ' ' {
			if i := strings.LastIndexByte(row, ' '); i > 0 {
				row = row[:i]
			}
		}
		rows = append(rows, row)
		s = strings.TrimLeft(s[len(row):], " ")
	}
	return rows
}
