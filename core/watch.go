package core

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/reprise-go/reprise/internal/enum"
	"github.com/reprise-go/reprise/record"
)

// A Delta is a piece of what a call is producing, shown while it goes on: the
// next words of a model's answer, or the progress of a tool. Deltas are not
// records: they have no number, are not stored, and what they show is final
// only once the call has its outcome.
type Delta struct {
	RunID   string         `json:"run_id,omitempty"`
	Address record.Address `json:"address"` // of the call; zero outside a run
	Attempt int            `json:"attempt"` // from 0; what a higher attempt emits replaces what lower ones did
	Part    Part           `json:"part"`
	Index   int            `json:"index,omitempty"` // of the tool call that the piece belongs to
	Name    string         `json:"name,omitempty"`  // of the tool that is asked for; of what makes progress
	Text    string         `json:"text,omitempty"`
}

// A Part says what a [Delta] is a piece of.
type Part uint8

// The parts of what a call produces.
const (
	PartBegin     Part = iota + 1 // an attempt begins: what was shown of earlier ones is void
	PartText                      // the answer
	PartReasoning                 // the model's thoughts
	PartToolCall                  // the arguments of tool call Index, which asks for the tool Name
	PartProgress                  // a tool's own words on how far it is
	PartEnd                       // the attempt has produced all it will
	partEnd
)

var partNames = [partEnd]string{
	PartBegin: "begin", PartText: "text", PartReasoning: "reasoning",
	PartToolCall: "tool_call", PartProgress: "progress", PartEnd: "end",
}

// String is the name on the wire, such as "tool_call".
func (p Part) String() string { return enum.Name(partNames[:], uint8(p), "part") }

// MarshalText writes the name on the wire.
func (p Part) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText reads a name that MarshalText wrote.
func (p *Part) UnmarshalText(text []byte) error {
	return enum.Parse(partNames[:], text, "part", (*uint8)(p))
}

type watchKey struct{}

// watcher is one function of Watch, and those around it.
type watcher struct {
	watch  func(Delta)
	broken atomic.Bool
	outer  *watcher
}

// Watch returns a context whose calls, at any depth, show f what they produce
// while they go on. Records and results are the same as without it. A call
// that is recalled from restored history emits nothing.
//
// f is called by the goroutines of the calls, several at a time, and they wait
// for it: it must be safe for that, and quick. A function that panics is not
// called again. Watching a context that is watched already adds f to the
// others.
func Watch(ctx context.Context, f func(Delta)) context.Context {
	if f == nil {
		return ctx
	}
	outer, _ := ctx.Value(watchKey{}).(*watcher)
	return context.WithValue(ctx, watchKey{}, &watcher{watch: f, outer: outer})
}

// Emit passes d to every function that watches ctx. Run, address and attempt are
// those of the attempt that ctx belongs to. Once the attempt is over, what it
// emits is dropped.
func Emit(ctx context.Context, d Delta) {
	if emit := Emitter(ctx); emit != nil {
		emit(d)
	}
}

// Emitter returns what [Emit] does for ctx, for a handler that emits often;
// nil if ctx is not watched.
func Emitter(ctx context.Context) func(Delta) {
	w, _ := ctx.Value(watchKey{}).(*watcher)
	if w == nil {
		return nil
	}
	s := scopeOf(ctx)
	if s == nil {
		return w.emit
	}
	runID, address, attempt := s.root.settings.RunID, s.Address(), s.Attempt()
	return func(d Delta) {
		if s.Closed() {
			return
		}
		d.RunID, d.Address, d.Attempt = runID, address, attempt
		w.emit(d)
	}
}

func (w *watcher) emit(d Delta) {
	for ; w != nil; w = w.outer {
		w.show(d)
	}
}

func (w *watcher) show(d Delta) {
	if w.broken.Load() {
		return
	}
	defer func() {
		if recover() != nil {
			w.broken.Store(true)
		}
	}()
	w.watch(d)
}

// heldBack is how much of a redacted text is kept back until more of it has
// come: a secret that has only begun is not known to be one.
const heldBack = 64

// RedactDeltas returns a function for [Watch] that shows next the deltas with
// their texts redacted. A secret is recognized across deltas: redact sees the
// text so far, and the last 64 characters of a text are shown only when more
// has come or the attempt has ended. A secret that redact recognizes later
// than that may have been shown in part; then no more of that text is.
func RedactDeltas(redact func(string) string, next func(Delta)) func(Delta) {
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
