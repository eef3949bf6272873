package failover

import (
	"context"
	"sync"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/live"
)

// A stage shows the deltas of one model at a time as those of the failover. It is for
// many goroutines.
type stage struct {
	emit func(live.Delta) // nil if nobody watches

	mu    sync.Mutex
	shown int // the model that is shown; -1 for none
	dirty bool
	parts []part
}

// part is what a model has produced in its latest attempt.
type part struct {
	deltas []live.Delta
	failed bool
}

func newStage(emit func(live.Delta), models int) *stage {
	return &stage{emit: emit, shown: -1, parts: make([]part, models)}
}

// of returns the context for model i.
func (s *stage) of(ctx context.Context, i int) context.Context {
	if s.emit == nil {
		return ctx
	}
	return live.Divert(ctx, func(d live.Delta) { s.take(i, d) })
}

// take takes in what model i produces.
func (s *stage) take(i int, d live.Delta) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &s.parts[i]
	switch d.Part {
	case live.PartBegin: // another attempt: what was shown is void
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

func (s *stage) show(d live.Delta) {
	s.dirty = true
	s.emit(d) // with the address of the failover
}

// withdraw takes back what was shown.
func (s *stage) withdraw() {
	if s.dirty {
		s.emit(live.Delta{Part: live.PartBegin})
		s.dirty = false
	}
}

// fail takes back what was shown of model i, which has failed, and shows another one
// that is answering.
func (s *stage) fail(i int) {
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
			s.turnTo(other)
			return
		}
	}
}

// settle shows what model i has produced, whose answer is taken. If it was recalled,
// that is its text.
func (s *stage) settle(i int, answer *actors.Message) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.emit == nil || s.shown == i {
		return
	}
	s.withdraw()
	s.turnTo(i)
	if len(s.parts[i].deltas) == 0 && answer.Text != "" {
		s.show(live.Delta{Part: live.PartText, Text: answer.Text})
	}
}

func (s *stage) turnTo(i int) {
	s.shown = i
	for _, d := range s.parts[i].deltas {
		s.show(d)
	}
}
