package turn

import (
	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// early holds the texts of running calls that arrived before the record by which the builder learns
// whether to show them: the first record of the agent, or the record that a stopped run was opened
// again. A store that several processes share may report such a record late.
type early struct {
	texts []streamer.Delta
	size  int // bytes
}

const (
	maxEarly  = 64 << 10
	earlySize = 256 // approximate bytes of a delta, without its text
)

// keep keeps a text until showEarly shows it. If there is no room, it hides the text.
func (b *Builder) keep(d *streamer.Delta) {
	switch {
	case d.Part == live.PartBegin || d.Part == live.PartEnd: // the text is void, or a record will show it
		delete(b.hidden, d.Address)
		b.early.drop(d.Address)
	case d.Part != live.PartText && d.Part != live.PartReasoning || b.hidden[d.Address]:
	case b.early.size+earlySize+len(d.Text) > maxEarly:
		b.early.drop(d.Address)
		b.hidden[d.Address] = true
	default:
		b.early.texts = append(b.early.texts, *d)
		b.early.size += earlySize + len(d.Text)
	}
}

func (e *early) drop(address record.Address) {
	kept := e.texts[:0]
	e.size = 0
	for i := range e.texts {
		if d := &e.texts[i]; d.Address != address {
			kept = append(kept, *d)
			e.size += earlySize + len(d.Text)
		}
	}
	clear(e.texts[len(kept):])
	e.texts = kept
}

// showEarly shows the texts that were kept, once they can be shown.
func (b *Builder) showEarly(out []Event) []Event {
	if b.agent.IsZero() || b.closed {
		return out
	}
	texts := b.early.texts
	b.early = early{}
	for i := range texts {
		out = append(out, b.delta(&texts[i])...)
	}
	return out
}
