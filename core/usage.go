package core

import (
	"context"
	"sync/atomic"
)

// Usage is what a call consumed at a metered service.
type Usage struct {
	InputTokens  int     `json:"input_tokens,omitempty"` // all of them, cached ones too
	OutputTokens int     `json:"output_tokens,omitempty"`
	Cost         float64 `json:"cost,omitempty"` // in a currency of the caller's choice

	// Parts of the above that services price differently.
	CachedInputTokens int `json:"cached_input_tokens,omitempty"` // input read from the service's cache
	CacheWriteTokens  int `json:"cache_write_tokens,omitempty"`  // input written to the service's cache
	ReasoningTokens   int `json:"reasoning_tokens,omitempty"`    // output that was thought, not said

	// Estimated says that a part was estimated, since the service did not
	// report it: a stream that broke off has no usage.
	Estimated bool `json:"estimated,omitempty"`
}

// TotalTokens is input and output together.
func (u Usage) TotalTokens() int { return u.InputTokens + u.OutputTokens }

// IsZero reports whether nothing was consumed.
func (u Usage) IsZero() bool { return u == Usage{} }

// Plus is the sum of both. It is estimated if one of them is.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		InputTokens:       u.InputTokens + v.InputTokens,
		OutputTokens:      u.OutputTokens + v.OutputTokens,
		Cost:              u.Cost + v.Cost,
		CachedInputTokens: u.CachedInputTokens + v.CachedInputTokens,
		CacheWriteTokens:  u.CacheWriteTokens + v.CacheWriteTokens,
		ReasoningTokens:   u.ReasoningTokens + v.ReasoningTokens,
		Estimated:         u.Estimated || v.Estimated,
	}
}

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
