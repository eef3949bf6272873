package record

import "math"

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

// Plus is the sum of both. It is estimated if one of them is. A Cost that is
// infinite, or not a number, counts as none.
func (u Usage) Plus(v Usage) Usage {
	return Usage{
		InputTokens:       u.InputTokens + v.InputTokens,
		OutputTokens:      u.OutputTokens + v.OutputTokens,
		Cost:              finite(u.Cost) + finite(v.Cost),
		CachedInputTokens: u.CachedInputTokens + v.CachedInputTokens,
		CacheWriteTokens:  u.CacheWriteTokens + v.CacheWriteTokens,
		ReasoningTokens:   u.ReasoningTokens + v.ReasoningTokens,
		Estimated:         u.Estimated || v.Estimated,
	}
}

func finite(cost float64) float64 {
	if math.IsNaN(cost) || math.IsInf(cost, 0) {
		return 0
	}
	return cost
}
