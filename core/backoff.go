package core

import (
	"fmt"
	"math"
	"time"
)

// Backoff determines how the delay before retry n (counted from 1) grows from the initial delay d.
type Backoff uint8

// The backoff strategies.
const (
	Constant    Backoff = iota + 1 // d
	Linear                         // d·n
	Exponential                    // d·multiplier^(n-1)
	Fibonacci                      // d·F(n), with F = 1, 1, 2, 3, 5, 8, …
)

// String returns the name used in configuration documents, such as "exponential".
func (b Backoff) String() string {
	switch b {
	case 0:
		return "default"
	case Constant:
		return "constant"
	case Linear:
		return "linear"
	case Exponential:
		return "exponential"
	case Fibonacci:
		return "fibonacci"
	}
	return fmt.Sprintf("backoff(%d)", uint8(b))
}

// Jitter determines how delays are spread, so that calls that failed together are not retried
// together. A number above 0 and up to 1 is a fraction: 0.1 spreads a delay over ±10 %. The zero
// value means 0.25. Jitter never raises a delay above MaxDelay: a delay near MaxDelay is drawn from
// the part of its range that is below MaxDelay, so that even calls whose delays have reached
// MaxDelay are spread.
type Jitter float64

// The values of Jitter that are not fractions.
const (
	// NoJitter leaves delays as they are.
	NoJitter Jitter = -1
	// FullJitter draws each delay from the range between 0 and the delay without jitter.
	FullJitter Jitter = -2
	// DecorrelatedJitter draws each delay from the range between the initial delay and three times
	// the previous delay, and ignores the Backoff. An initial delay near or above MaxDelay is
	// treated as three quarters of MaxDelay. Source: "Exponential Backoff And Jitter", AWS
	// Architecture Blog.
	DecorrelatedJitter Jitter = -3

	defaultJitter Jitter = 0.25
)

func (j Jitter) valid() bool {
	return j >= 0 && j <= 1 || j == NoJitter || j == FullJitter || j == DecorrelatedJitter
}

// delay returns the delay before retry n (counted from 1), without jitter. It is at most MaxDelay.
func (c *retries) delay(n int) time.Duration {
	if c.InitialDelay == 0 {
		return 0 // even if the factor overflows
	}
	d, n := float64(c.InitialDelay), max(n, 1)
	switch c.Backoff {
	case Linear:
		d *= float64(n)
	case Exponential:
		d *= math.Pow(c.Multiplier, float64(n-1))
	case Fibonacci:
		d *= fibonacci(n)
	}
	if d >= float64(c.MaxDelay) {
		return c.MaxDelay
	}
	return time.Duration(d)
}

// fibonacci returns F(n). For n above 100, it returns F(100), which exceeds every Duration.
func fibonacci(n int) float64 {
	a, b := 1.0, 1.0
	for range min(n, 100) - 1 {
		a, b = b, a+b
	}
	return a
}

// Delay implements [engine.Retries]. u determines which delay in the range is returned.
func (c *retries) Delay(n int, previous time.Duration, u float64) time.Duration {
	if c.Jitter == NoJitter || c.InitialDelay == 0 {
		return c.delay(n)
	}
	plain, longest := float64(c.delay(n)), float64(c.MaxDelay)
	var low, high float64
	switch c.Jitter {
	case FullJitter:
		low, high = 0, plain
	case DecorrelatedJitter:
		first := float64(c.InitialDelay)
		high = min(3*max(float64(previous), first), longest)
		low = min(first, high*float64(1-defaultJitter)) // strictly below MaxDelay
	default:
		low, high = plain*float64(1-c.Jitter), min(plain*float64(1+c.Jitter), longest)
	}
	if d := low + u*(high-low); d < float64(c.MaxDelay) { // otherwise rounding has made d too large
		return time.Duration(d)
	}
	return c.MaxDelay
}
