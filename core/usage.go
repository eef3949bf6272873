package core

import (
	"context"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// Usage is what a call consumed at a metered service.
type Usage = record.Usage

// AddUsage counts u for the attempt that ctx belongs to. The record that ends
// the attempt contains it, even if the attempt fails. Outside a run, AddUsage
// does nothing.
func AddUsage(ctx context.Context, u Usage) {
	if s := ScopeOf(ctx); s != nil && s.call != nil {
		addUsage(&s.inner().used, u)
	}
}

// UsageInside returns what the calls inside the attempt that ctx belongs to
// have consumed so far, at any depth: each counts once, for the attempt that
// called [AddUsage]. What the attempt itself has added is not included. In a
// run that was resumed, what was consumed before is included.
func UsageInside(ctx context.Context) Usage {
	s := ScopeOf(ctx)
	if s == nil {
		return Usage{}
	}
	in := s.inside.Load()
	if in == nil {
		return Usage{}
	}
	spent := in.spent.Load()
	if spent == nil {
		return Usage{}
	}
	return *spent
}

func addUsage(to *atomic.Pointer[Usage], u Usage) {
	for {
		old, sum := to.Load(), u
		if old != nil {
			sum = old.Plus(u)
		}
		if to.CompareAndSwap(old, &sum) {
			return
		}
	}
}

// passOn counts what was consumed inside an attempt for what is around the
// call.
func (c *call) passOn(in *inside) {
	if spent := in.spent.Swap(nil); spent != nil {
		c.spend(*spent)
	}
}

// spend counts u for the attempt around the call.
func (c *call) spend(u Usage) { addUsage(&c.parent.inner().spent, u) }
