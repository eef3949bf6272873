package core

import "context"

// Usage is what a call consumed at a metered service.
type Usage struct {
	InputTokens  int     `json:"input_tokens,omitempty"`
	OutputTokens int     `json:"output_tokens,omitempty"`
	Cost         float64 `json:"cost,omitempty"` // in the currency of whoever sets it
}

// TotalTokens is input and output together.
func (u Usage) TotalTokens() int { return u.InputTokens + u.OutputTokens }

// IsZero reports whether nothing was consumed.
func (u Usage) IsZero() bool { return u == Usage{} }

// Plus is the sum of both.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.InputTokens + v.InputTokens, u.OutputTokens + v.OutputTokens, u.Cost + v.Cost}
}

// AddUsage counts u for the attempt that ctx belongs to; it is in the record
// that ends the attempt, also when it fails. Outside a run it does nothing.
func AddUsage(ctx context.Context, u Usage) {
	s := scopeOf(ctx)
	for s != nil && !s.IsAttempt() {
		s = s.call.parent // a branch has no records of its own
	}
	for s != nil {
		old, sum := s.used.Load(), u
		if old != nil {
			sum = old.Plus(u)
		}
		if s.used.CompareAndSwap(old, &sum) {
			return
		}
	}
}
