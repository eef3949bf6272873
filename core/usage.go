package core

import (
	"context"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// Usage is what a call consumed at a metered service.
type Usage = record.Usage

// AddUsage counts u for the attempt that ctx belongs to; it is in the record
// that ends the attempt, also when it fails. Outside a run it does nothing.
func AddUsage(ctx context.Context, u Usage) {
	if s := ScopeOf(ctx); s != nil && s.call != nil {
		addUsage(&s.inner().used, u)
	}
}

// UsageInside is what the calls inside the attempt that ctx belongs to have
// consumed so far, with those inside them: each counts once, where [AddUsage] was
// called. What the attempt itself has added is not in it. In a run that was
// resumed it has what was consumed before, too.
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

// passOn has what was consumed inside an attempt count for what is around it.
func (c *call) passOn(in *inside) {
	if spent := in.spent.Swap(nil); spent != nil {
		c.spend(*spent)
	}
}

// spend counts u for what is around the call.
func (c *call) spend(u Usage) { addUsage(&c.parent.inner().spent, u) }
