package record

import "math"

// Usage says what a call has consumed at a metered service.
type Usage struct {
	InputTokens  int     `json:"input_tokens,omitempty"` // all input tokens, including cached ones
	OutputTokens int     `json:"output_tokens,omitempty"`
	Cost         float64 `json:"cost,omitempty"` // in a currency of the caller's choice

	// Parts of the tokens above that are priced differently.
	CachedInputTokens int `json:"cached_input_tokens,omitempty"` // input read from the service's cache
	CacheWriteTokens  int `json:"cache_write_tokens,omitempty"`  // input written to the service's cache
	ReasoningTokens   int `json:"reasoning_tokens,omitempty"`    // output that is reasoning and not part of the answer

	// Estimated is set if a part of the usage was estimated because the service did not report it,
	// for example because a stream broke off.
	Estimated bool `json:"estimated,omitempty"`
}

// TotalTokens returns the sum of input and output tokens.
func (u Usage) TotalTokens() int { return u.InputTokens + u.OutputTokens }

// IsZero reports whether nothing was consumed.
func (u Usage) IsZero() bool { return u == Usage{} }

// Plus returns the sum of u and v. The sum is estimated if u or v is. A Cost that is infinite or
// not a number counts as 0.
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
