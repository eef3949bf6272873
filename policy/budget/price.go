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

// A Price is the price of a million tokens.
type Price struct {
	Input  float64 `json:"input"`
	Output float64 `json:"output"` // including reasoning

	// Prices of parts of the input. A part whose price is 0 is charged at the price Input.
	Cached     float64 `json:"cached,omitempty"`      // read from the service's cache
	CacheWrite float64 `json:"cache_write,omitempty"` // written to the service's cache
}

// Prices holds prices by model name.
type Prices map[string]Price

// ParsePrices parses a JSON object that maps model names to prices. If a price is invalid, the
// error names the model and the field.
func ParsePrices(data []byte) (Prices, error) {
	var p Prices
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("budget: prices: %w", err)
	}
	return p, p.Check()
}

// Check returns an error if a price is negative or not finite.
func (p Prices) Check() error {
	for model, price := range p {
		for field, v := range map[string]float64{"input": price.Input, "output": price.Output, "cached": price.Cached, "cache_write": price.CacheWrite} {
			if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("budget: the %s price of model %q is %v; want a finite price of 0 or more", field, model, v)
			}
		}
	}
	return nil
}

// Of returns the cost of the given usage of a model, or false if the model is unknown. It can be
// used as [Options].Price. A name with a version has the price of its model: "gpt-4o-2024-08-06"
// costs the same as "gpt-4o", and "claude-3-5-haiku-latest" the same as "claude-3-5-haiku". A
// provider name before a slash is ignored.
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

// versionSuffix matches the suffix that a versioned name adds to a model name. A suffix
// that is a word names a different model: gpt-4o-audio is not gpt-4o.
var versionSuffix = regexp.MustCompile(`^(-[0-9]|@|-latest$)`)

func (p Prices) find(model string) (Price, bool) {
	if price, ok := p[model]; ok {
		return price, true
	}
	best := ""
	for name := range p {
		if rest, ok := strings.CutPrefix(model, name); ok && versionSuffix.MatchString(rest) && len(name) > len(best) {
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

// KnownPrices returns the list prices, in US dollars, for models of the large providers
// as of July 2026, without discounts, surcharges and tiers. Prices change: a budget
// that must be exact needs its own table. The caller owns the result.
func KnownPrices() Prices {
	p, err := ParsePrices(pricesJSON)
	if err != nil {
		panic(err) // the file is embedded and tested
	}
	return p
}
