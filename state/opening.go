package state

import (
	"context"
	"maps"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// An Opening describes a run that is being begun or resumed. It is passed to the function given to
// [WithOpening].
type Opening struct {
	RunID      string
	Generation uint64 // the number of the opening, from 1
	Program    string // the program with which a runner started the run; empty if no runner did
	Version    string // of the program
	Metadata   snapshot.Metadata

	// Before holds the attributes of the latest earlier opening that has any, or is nil if there is
	// none. It must not be changed.
	Before map[string]any
}

// WithOpening calls f when the run is begun or resumed, before anything else happens in the run. f
// returns the attributes to record with the opening, or nil. They are stored in the opening's first
// record, in the same way as the attributes that [core.Annotate] sets for an attempt. The next
// opening, in any process, receives them as Opening.Before. If the option is given twice, the
// attributes from both functions are recorded. The context is the one passed to [Open], or
// context.Background for a run in memory.
//
// Tracing uses WithOpening to continue a trace in the next process.
func WithOpening(f func(context.Context, Opening) map[string]any) Option {
	return func(c *config) {
		c.refuseNil("WithOpening", f)
		c.openings = append(c.openings, f)
		c.limitTo("WithOpening", inNew|inOpen)
	}
}

// openingAttributes returns the attributes of this opening of the run, or nil if it has none.
func (r *run) openingAttributes(ctx context.Context) (attributes map[string]any) {
	if len(r.config.openings) == 0 || r.settings.Strict {
		return nil
	}
	o := Opening{
		RunID: r.settings.RunID, Generation: r.generation, Program: r.found.Program, Version: r.found.Version, Metadata: r.config.metadata.Clone(),
	}
	if r.restored != nil {
		o.Before = r.restored.opening
	}
	for _, f := range r.config.openings {
		if more := f(ctx, o); len(more) > 0 {
			if attributes == nil {
				attributes = make(map[string]any, len(more))
			}
			maps.Copy(attributes, more)
		}
	}
	return cloneMetadata(attributes)
}

// openedWith returns the attributes of an opening from its first record.
func openedWith(rec *record.Record) map[string]any {
	if rec.Detail == nil {
		return nil
	}
	return cloneMetadata(rec.Detail.Metadata)
}
