package live

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/reprise-go/reprise/record"
)

// heldBack is how much of a redacted text is kept back until more of it has
// come: a secret that has only begun is not known to be one.
const heldBack = 64

// Redact returns a function for [Watch] that shows next the deltas with their texts
// redacted. A secret is recognized across deltas: redact sees the text so far, and
// the last 64 characters of a text are shown only when more has come or the attempt
// has ended. A secret that redact recognizes only later may have been shown in
// part; the rest of that text is then not shown.
func Redact(redact func(string) string, next func(Delta)) func(Delta) {
	r := &deltaRedaction{redact: redact, next: next, texts: make(map[textKey]*redactedText)}
	return r.show
}

type deltaRedaction struct {
	redact func(string) string
	next   func(Delta)

	mu    sync.Mutex
	texts map[textKey]*redactedText
	order []textKey // in which the texts began
}

// textKey identifies a text that comes in pieces.
type textKey struct {
	runID   string
	address record.Address
	attempt int
	part    Part
	index   int
}

// isOf reports whether the text is of the call that d comes from.
func (k textKey) isOf(d *Delta) bool { return k.runID == d.RunID && k.address == d.Address }

type redactedText struct {
	last  Delta // for all but the text
	whole strings.Builder
	fresh int    // bytes that came since redact was last asked
	shown string // redacted
}

func (r *deltaRedaction) show(d Delta) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch d.Part {
	case PartText, PartReasoning, PartToolCall:
		r.add(textKey{d.RunID, d.Address, d.Attempt, d.Part, d.Index}, d)
		return
	case PartBegin:
		r.forget(func(k textKey) bool { return k.isOf(&d) && k.attempt < d.Attempt }) // abandoned, or they had ended
	case PartEnd:
		r.finish(&d)
	}
	d.Name, d.Text = record.RedactText(r.redact, d.Name), record.RedactText(r.redact, d.Text)
	r.next(d)
}

func (r *deltaRedaction) add(key textKey, d Delta) {
	t := r.texts[key]
	if t == nil {
		t = new(redactedText)
		r.texts[key] = t
		r.order = append(r.order, key)
	}
	name := t.last.Name + d.Name
	t.last = d
	t.last.Name = name
	t.whole.WriteString(d.Text)
	if t.fresh += len(d.Text); t.fresh >= heldBack {
		t.fresh = 0
		r.reveal(t, heldBack)
	}
}

// reveal shows what is new of t but its last characters.
func (r *deltaRedaction) reveal(t *redactedText, keep int) {
	text := record.RedactText(r.redact, t.whole.String())
	for ; keep > 0 && text != ""; keep-- {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	piece, ok := strings.CutPrefix(text, t.shown)
	if !ok || piece == "" {
		return
	}
	d := t.last
	d.Name, d.Text = record.RedactText(r.redact, t.last.Name), piece
	t.shown = text
	r.next(d)
}

// finish shows the rest of the texts of an attempt, and forgets them.
func (r *deltaRedaction) finish(d *Delta) {
	ended := func(k textKey) bool { return k.isOf(d) && k.attempt == d.Attempt }
	for _, key := range r.order {
		if ended(key) {
			r.reveal(r.texts[key], 0)
		}
	}
	r.forget(ended)
}

func (r *deltaRedaction) forget(over func(textKey) bool) {
	r.order = slices.DeleteFunc(r.order, over)
	maps.DeleteFunc(r.texts, func(k textKey, _ *redactedText) bool { return over(k) })
}
