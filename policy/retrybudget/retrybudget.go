package retrybudget

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
)

// A Budget limits the retries of all calls that share it, whether they are in one run or in many.
// It is safe for concurrent use. Create one with [New].
type Budget struct {
	options Options
	slot    time.Duration

	mu    sync.Mutex
	slots [slots]slot // a ring buffer indexed by slot number
}

// Options configure a [Budget].
type Options struct {
	// Retries is the number of retries allowed in each window, independent of the
	// number of calls. Defaults to 0; at least one of Retries and Ratio must be set.
	Retries int

	// Ratio is the number of additional retries allowed for each call that begins in
	// the window, such as 0.1. Defaults to 0.
	Ratio float64

	// Window is the length of the window. Defaults to 1 min.
	Window time.Duration
}

// slots is the number of slots into which the window is divided, plus one for the current slot.
const slots = 11

type slot struct {
	number         int64 // slot number since the Unix epoch
	calls, retries int
}

// New returns a budget. It panics if an option is out of range or if Retries and Ratio
// are both 0.
func New(o Options) *Budget {
	if o.Window == 0 {
		o.Window = time.Minute
	}
	switch {
	case o.Retries < 0:
		panic(fmt.Sprintf("retrybudget: Options.Retries is %d; want 0 or more", o.Retries))
	case o.Ratio < 0 || math.IsNaN(o.Ratio) || math.IsInf(o.Ratio, 1):
		panic(fmt.Sprintf("retrybudget: Options.Ratio is %v; want 0 or more, and finite", o.Ratio))
	case o.Retries == 0 && o.Ratio == 0:
		panic("retrybudget: Options: Retries and Ratio are both 0, which allows no retries; for calls with one attempt, set core.RetryConfig.MaxAttempts to 1")
	case o.Window < time.Millisecond:
		panic(fmt.Sprintf("retrybudget: Options.Window is %v; want 1ms or more, or 0 for the default of 1m0s", o.Window))
	}
	return &Budget{options: o, slot: o.Window / (slots - 1)}
}

// text returns what the budget allows, such as "of 10 retries in 1m0s".
func (b *Budget) text() string {
	switch c := b.options; {
	case c.Ratio == 0 && c.Retries == 1:
		return fmt.Sprintf("of 1 retry in %v", c.Window)
	case c.Ratio == 0:
		return fmt.Sprintf("of %d retries in %v", c.Retries, c.Window)
	case c.Retries == 0:
		return fmt.Sprintf("of %v retries for each call in %v", c.Ratio, c.Window)
	default:
		return fmt.Sprintf("of %d retries, and %v for each call, in %v", c.Retries, c.Ratio, c.Window)
	}
}

// currentSlot returns the slot for the current time, which it clears if the slot is outdated. The
// caller holds b.mu.
func (b *Budget) currentSlot() *slot {
	number := time.Now().UnixNano() / int64(b.slot)
	s := &b.slots[number%slots]
	if s.number != number {
		*s = slot{number: number}
	}
	return s
}

// remaining returns the number of retries left. The caller holds b.mu.
func (b *Budget) remaining() float64 {
	first := b.currentSlot().number - slots
	calls, retries := 0, 0
	for i := range b.slots {
		if s := &b.slots[i]; s.number > first {
			calls += s.calls
			retries += s.retries
		}
	}
	return float64(b.options.Retries) + b.options.Ratio*float64(calls) - float64(retries)
}

// Interceptor returns an interceptor that counts the calls it wraps and takes a retry
// from the budget for each retry scheduled. If the budget is used up, a call that would
// be retried fails with [core.ErrBudget].
func (b *Budget) Interceptor() core.Interceptor {
	return core.Interceptor{
		Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
			if call.Number == 1 {
				b.addCall()
			}
			return next(ctx)
		},
		Retry: func(*core.CallInfo, error) (giveBack func(), refused error) {
			number, taken := b.takeRetry()
			if !taken {
				return nil, fmt.Errorf("the retry budget %s is used up", b.text())
			}
			return func() { b.giveBack(number) }, nil
		},
	}
}

// addCall counts a call that begins.
func (b *Budget) addCall() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.currentSlot().calls++
}

// takeRetry takes a retry from the budget and reports whether one was left. It returns the number of
// the slot that counts the retry.
func (b *Budget) takeRetry() (number int64, taken bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.remaining() < 1-1e-9 { // tolerate rounding: ten calls at 0.1 allow one retry
		return 0, false
	}
	s := b.currentSlot()
	s.retries++
	return s.number, true
}

// giveBack returns a retry to the slot that counted it. It does nothing if the slot was cleared in
// the meantime.
func (b *Budget) giveBack(number int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := &b.slots[number%slots]; s.number == number {
		s.retries--
	}
}
