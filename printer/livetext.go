package printer

import (
	"strings"
	"unicode/utf8"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
)

// PublishDelta shows the output of a running call below the call's live line: the last lines of a
// model's answer, thoughts or tool calls, or the progress of a tool. The output disappears when the
// attempt ends. Without live lines, PublishDelta does nothing. Use it with [live.Watch]:
//
//	ctx = live.Watch(ctx, p.PublishDelta)
//
// Deltas are not redacted, even if the run redacts its records. Pass live.Redact(redact,
// p.PublishDelta) instead to redact them.
func (p *Printer) PublishDelta(d live.Delta) {
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
	maxTail     = 2 << 10 // bytes kept per text
	maxTextRows = 3       // rows shown below a live line
)

// A liveText holds the latest output of an attempt.
type liveText struct {
	attempt int
	part    live.Part
	index   int // index of the tool call
	name    string
	tail    string
}

type textKey struct{ run, path string }

// liveTexts holds the output of running calls. It is separate from the tree because
// deltas may arrive before the record that starts their call.
type liveTexts map[textKey]*liveText

func (l liveTexts) add(d *live.Delta) {
	key := textKey{d.RunID, d.Address.String()}
	t := l[key]
	switch {
	case t != nil && d.Attempt < t.attempt: // from an abandoned attempt
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

// end removes the output of an attempt if r is the record that ends the attempt.
func (l liveTexts) end(r *record.Record) {
	if len(l) == 0 || !r.Kind.IsCall() || r.Status == record.StatusStarted || r.Status == record.StatusRetrying {
		return
	}
	key := textKey{r.RunID, r.Address.String()}
	if t := l[key]; t != nil && t.attempt <= r.Attempt {
		delete(l, key)
	}
}

// rows wraps the text to the given number of columns, and returns at most the last limit
// rows.
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

// wrap breaks s into rows, preferably between words.
func wrap(s string, columns int) []string {
	var rows []string
	for s != "" {
		row := widths.Truncate(s, columns, "")
		if row == "" { // not even a single character fits
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
