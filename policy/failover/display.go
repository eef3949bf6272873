package failover

import (
	"context"
	"sync"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core/live"
)

// A display emits the deltas of one model at a time as if the failover had produced
// them. It is safe for concurrent use.
type display struct {
	emit func(live.Delta) // nil if nobody watches

	mu    sync.Mutex
	shown int // index of the model whose deltas are shown; -1 if there is none
	dirty bool
	parts []part
}

// A part holds the deltas of a model's latest attempt.
type part struct {
	deltas []live.Delta
	failed bool
}

func newDisplay(emit func(live.Delta), models int) *display {
	return &display{emit: emit, shown: -1, parts: make([]part, models)}
}

// contextFor returns the context with which to call model i.
func (s *display) contextFor(ctx context.Context, i int) context.Context {
	if s.emit == nil {
		return ctx
	}
	return live.Divert(ctx, func(d live.Delta) { s.add(i, d) })
}

// add handles a delta of model i.
func (s *display) add(i int, d live.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.parts[i]
	switch d.Part {
	case live.PartBegin: // a new attempt: withdraw the deltas of the previous one
		p.deltas = nil
		if s.shown == i {
			s.withdraw()
		}
		return
	case live.PartEnd:
		return
	}
	if s.shown < 0 {
		s.shown = i
	}
	if s.shown == i {
		s.show(d)
	}
	p.deltas = append(p.deltas, d)
}

func (s *display) show(d live.Delta) {
	s.dirty = true
	s.emit(d) // emitted with the address of the failover
}

// withdraw withdraws the emitted deltas.
func (s *display) withdraw() {
	if s.dirty {
		s.emit(live.Delta{Part: live.PartBegin})
		s.dirty = false
	}
}

// fail withdraws the deltas of model i, which has failed, and switches to another model
// that is answering.
func (s *display) fail(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts[i] = part{failed: true}
	if s.shown != i {
		return
	}
	s.withdraw()
	s.shown = -1
	for other := range s.parts {
		if p := &s.parts[other]; !p.failed && len(p.deltas) > 0 {
			s.switchTo(other)
			return
		}
	}
}

// settle shows the deltas of model i, whose answer is used. If the answer was recalled and there
// are no deltas, settle shows the text of the answer.
func (s *display) settle(i int, answer *actors.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.emit == nil || s.shown == i {
		return
	}
	s.withdraw()
	s.switchTo(i)
	if len(s.parts[i].deltas) == 0 && answer.Text != "" {
		s.show(live.Delta{Part: live.PartText, Text: answer.Text})
	}
}

func (s *display) switchTo(i int) {
	s.shown = i
	for _, d := range s.parts[i].deltas {
		s.show(d)
	}
}
