package budget

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"

	"github.com/reprise-go/reprise/core"
)

// A Price is what a million tokens cost.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"` // reasoning included

	// Parts of the input with prices of their own. Default to Input.
	Cached     float64 `json:"cached,omitempty"`      // read from the cache of the service
	CacheWrite float64 `json:"cache_write,omitempty"` // written to it
}

// Prices are the prices of models by their names.
type Prices map[string]Price

// ParsePrices reads prices from JSON, an object by model. The error names the model
// and the field that is wrong.
func ParsePrices(data []byte) (Prices, error) {
	var p Prices
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("budget: prices: %w", err)
	}
	return p, p.Check()
}

// Check returns an error for the first price that is negative or not finite.
func (p Prices) Check() error {
	for model, price := range p {
		for field, v := range map[string]float64{"input": price.Input, "output": price.Output, "cached": price.Cached, "cache_write": price.CacheWrite} {
			if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("budget: the price %s of the model %q is %v; it must be 0 or more, and finite", field, model, v)
			}
		}
	}
	return nil
}

// Of returns what the usage of a model costs, for [Options].Price. A version of a
// model has the price of the model: "gpt-4o-2024-08-06" that of "gpt-4o",
// "claude-3-5-haiku-latest" that of "claude-3-5-haiku". A name of the provider before a
// slash does not count.
func (p Prices) Of(model string, u core.Usage) (cost float64, known bool) {
	price, ok := p.find(model)
	if !ok {
		return 0, false
	}
	cached, written := price.Cached, price.CacheWrite
	if cached == 0 {
		cached = price.Input
	}
	if written == 0 {
		written = price.Input
	}
	plain := max(0, u.InputTokens-u.CachedInputTokens-u.CacheWriteTokens)
	const million = 1e6
	return (float64(plain)*price.Input + float64(u.CachedInputTokens)*cached +
		float64(u.CacheWriteTokens)*written + float64(u.OutputTokens)*price.Output) / million, true
}

// version matches what follows the name of a model in that of a version of it. A word
// would be another model: gpt-4o-audio is not gpt-4o.
var version = regexp.MustCompile(`^(-[0-9]|@|-latest$)`)

func (p Prices) find(model string) (Price, bool) {
	if price, ok := p[model]; ok {
		return price, true
	}
	best := ""
	for name := range p {
		if rest, ok := strings.CutPrefix(model, name); ok && version.MatchString(rest) && len(name) > len(best) {
			best = name
		}
	}
	if best != "" {
		return p[best], true
	}
	if _, after, ok := strings.Cut(model, "/"); ok {
		return p.find(after)
	}
	return Price{}, false
}

//go:embed prices.json
var pricesJSON []byte

// KnownPrices returns list prices in US dollars of models of the large services,
// without discounts, surcharges and tiers, as they were known at the end of 2025. Prices change: a
// budget that must be exact has a table of its own. The caller owns the result.
func KnownPrices() Prices {
	p, err := ParsePrices(pricesJSON)
	if err != nil {
		panic(err) // the file is part of the program, and tested
	}
	return p
}
