package core

import (
	"context"
	"sync/atomic"
)

// AddUsage counts u for the attempt that ctx belongs to; it is in the record
// that ends the attempt, also when it fails. Outside a run it does nothing.
func AddUsage(ctx context.Context, u Usage) {
	if s := scopeOf(ctx); s != nil && s.call != nil {
		addUsage(&s.used, u)
	}
}

// UsageInside is what the calls inside the attempt that ctx belongs to have
// consumed so far, with those inside them: each counts once, where [AddUsage] was
// called. What the attempt itself has added is not in it. In a run that was
// resumed it has what was consumed before, too.
func UsageInside(ctx context.Context) Usage {
	s := scopeOf(ctx)
	if s == nil {
		return Usage{}
	}
	inside := s.spent.Load()
	if inside == nil {
		return Usage{}
	}
	return *inside
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
func (c *call) passOn(s *Scope) {
	if s.spent.Load() == nil { // mostly
		return
	}
	if inside := s.spent.Swap(nil); inside != nil {
		addUsage(&c.parent.spent, *inside)
	}
}
