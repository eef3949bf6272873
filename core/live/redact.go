package live

import (
	"cmp"
	"math"
	"slices"
	"sync"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
)

// Redact returns a function for [Watch] that redacts the texts of deltas and passes the deltas on
// to next. A secret is recognized even if it is split across deltas: text that may be the beginning
// of a secret is held back, as [redact.Stream] describes, until more text arrives or the attempt
// ends.
//
// Deltas of different calls do not wait for each other. The deltas of one call are passed to next
// in order.
func Redact(r redact.Redaction, next func(Delta)) func(Delta) {
	if r == nil {
		panic("live: Redact got a nil redaction; redact.New returns one")
	}
	d := &deltaRedaction{redaction: r, next: next, calls: make(map[callKey]*redactedCall)}
	return d.show
}

type deltaRedaction struct {
	redaction redact.Redaction
	next      func(Delta)

	mu    sync.Mutex
	calls map[callKey]*redactedCall // the calls that produce text; at most maxCalls
	shown uint64                    // the number of deltas so far
}

// maxCalls is the maximum number of calls that are remembered. A limit is needed because an
// abandoned attempt never emits PartEnd, and because calls that users define need not emit it.
const maxCalls = 4096

type callKey struct {
	runID   string
	address record.Address
}

// A redactedCall holds what the latest attempt of a call has produced.
type redactedCall struct {
	attempt int
	last    uint64 // the number of the call's last delta; guarded by deltaRedaction.mu

	mu    sync.Mutex
	texts []*redactedText // in the order in which they began
}

// A redactedText is text that arrives in pieces.
type redactedText struct {
	last         Delta // the last delta of the text, with the whole Name and no Text
	stream       redact.Stream
	originalName string // the Name before it was redacted
}

// call returns the call that produced d, or nil if d is from an abandoned attempt. It remembers a
// call only from the call's first text until an attempt ends, because a call without texts may
// never emit PartEnd.
func (r *deltaRedaction) call(d *Delta) *redactedCall {
	key := callKey{d.RunID, d.Address}
	r.mu.Lock()
	defer r.mu.Unlock()
	c, known := r.calls[key]
	switch {
	case !known, d.Part == PartBegin, d.Attempt > c.attempt:
		c = &redactedCall{attempt: d.Attempt}
	case d.Attempt < c.attempt:
		return nil
	}
	switch {
	case d.Part == PartEnd:
		delete(r.calls, key)
	case known || d.Part.isText():
		if !known && len(r.calls) >= maxCalls {
			r.forgetOldest()
		}
		r.shown++
		c.last = r.shown
		r.calls[key] = c
	}
	return c
}

// forgetOldest forgets the call whose last delta is the oldest. r.mu must be held.
func (r *deltaRedaction) forgetOldest() {
	var oldest callKey
	first := uint64(math.MaxUint64)
	for key, c := range r.calls {
		if c.last < first {
			oldest, first = key, c.last
		}
	}
	delete(r.calls, oldest)
}

// isText reports whether p is text that arrives in pieces.
func (p Part) isText() bool { return p == PartText || p == PartReasoning || p == PartToolCall }

func (r *deltaRedaction) show(d Delta) {
	c := r.call(&d)
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if d.Part.isText() {
		r.add(c, &d)
		return
	}
	if d.Part == PartEnd {
		r.finish(c)
	}
	d.Name, d.Text = r.redaction.Text(d.Name), r.redaction.Text(d.Text)
	r.next(d)
}

func (r *deltaRedaction) add(c *redactedCall, d *Delta) {
	i := slices.IndexFunc(c.texts, func(t *redactedText) bool { return t.last.Part == d.Part && t.last.Index == d.Index })
	if i < 0 {
		i = len(c.texts)
		c.texts = append(c.texts, &redactedText{stream: r.redaction.Stream()})
	}
	t := c.texts[i]
	name, id := t.last.Name+d.Name, cmp.Or(d.ID, t.last.ID)
	t.last = *d
	t.last.Name, t.last.ID, t.last.Text = name, id, ""
	if shown := t.stream.Add(d.Text); shown != "" {
		r.reveal(t, shown)
	}
}

func (r *deltaRedaction) reveal(t *redactedText, piece string) {
	d := t.last
	d.Name, d.Text = r.redaction.Text(d.Name), piece
	t.originalName = t.last.Name
	r.next(d)
}

// finish passes on any text that was held back.
func (r *deltaRedaction) finish(c *redactedCall) {
	for _, t := range c.texts {
		if rest := t.stream.End(); rest != "" || t.originalName != t.last.Name {
			r.reveal(t, rest)
		}
	}
	c.texts = nil
}
