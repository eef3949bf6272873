package engine

import (
	"context"
	"sync/atomic"

	"github.com/reprise-go/reprise/record"
)

// AddUsage is core.AddUsage.
func AddUsage(ctx context.Context, u record.Usage) {
	if s := ScopeOf(ctx); s != nil && s.call != nil {
		addUsage(&s.ensureState().used, u)
	}
}

// UsageOfCalls is core.UsageOfCalls.
func UsageOfCalls(ctx context.Context) record.Usage {
	s := ScopeOf(ctx)
	if s == nil {
		return record.Usage{}
	}
	in := s.state.Load()
	if in == nil {
		return record.Usage{}
	}
	spent := in.spent.Load()
	if spent == nil {
		return record.Usage{}
	}
	return *spent
}

func addUsage(to *atomic.Pointer[record.Usage], u record.Usage) {
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

// passOnUsage adds the usage of the calls in an attempt to the usage of the surrounding scope.
func (c *Call) passOnUsage(in *scopeState) {
	if spent := in.spent.Swap(nil); spent != nil {
		c.spend(*spent)
	}
}

// spend adds u to the usage of the surrounding attempt.
func (c *Call) spend(u record.Usage) { addUsage(&c.parent.ensureState().spent, u) }
