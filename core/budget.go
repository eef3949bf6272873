package core

import (
	"fmt"
	"math"
	"sync"
	"time"
)

// A RetryBudget limits the retries of many calls together, so that they do not
// multiply the load on a service that is already failing. In any window of time
// it allows a number of retries, a share of the calls that begin, or the sum of
// both. When it is used up, a call that would be retried fails with
// [ErrBudget].
//
// It is safe for many goroutines and shared by many runs. It belongs to the
// process and is not stored: a retry counts when it is promised, and a new
// process begins with a whole budget. Make one with [NewRetryBudget].
type RetryBudget struct {
	config RetryBudgetConfig
	slot   time.Duration

	mu    sync.Mutex
	slots [budgetSlots]budgetSlot // a ring, by the number of the slot
}

// RetryBudgetConfig sets how many retries a [RetryBudget] allows.
type RetryBudgetConfig struct {
	// Retries is how many retries are allowed in any window, however many calls
	// begin. Defaults to none; one of Retries and Ratio must be set.
	Retries int

	// Ratio is how many retries each call that begins in the window adds, such
	// as 0.1. Defaults to none.
	Ratio float64

	// Window is the length of the window. Defaults to 1 min.
	Window time.Duration
}

// budgetSlots is the number of slots that the window is divided into, and one
// more for the slot that is not over.
const budgetSlots = 11

type budgetSlot struct {
	number         int64 // of the slot, since the zero of the clock
	calls, retries int
}

// NewRetryBudget panics if a field is out of range, or Retries and Ratio are both
// 0.
func NewRetryBudget(c RetryBudgetConfig) *RetryBudget {
	if c.Window == 0 {
		c.Window = time.Minute
	}
	switch {
	case c.Retries < 0:
		panic(fmt.Sprintf("core: RetryBudgetConfig.Retries is %d; want 0 or more", c.Retries))
	case c.Ratio < 0 || math.IsNaN(c.Ratio) || math.IsInf(c.Ratio, 1):
		panic(fmt.Sprintf("core: RetryBudgetConfig.Ratio is %v; want 0 or more, and finite", c.Ratio))
	case c.Retries == 0 && c.Ratio == 0:
		panic("core: RetryBudgetConfig: Retries and Ratio are 0, which allows no retry at all; RetryConfig.Disabled says that")
	case c.Window < time.Millisecond:
		panic(fmt.Sprintf("core: RetryBudgetConfig.Window is %v; want 1ms or more, or 0 for the default of 1m0s", c.Window))
	}
	return &RetryBudget{config: c, slot: c.Window / (budgetSlots - 1)}
}

// text returns what the budget allows, such as "of 10 retries in 1m0s".
func (b *RetryBudget) text() string {
	switch c := b.config; {
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

// now returns the slot of the present, and empties it if it is from an earlier
// round. b.mu must be held.
func (b *RetryBudget) now() *budgetSlot {
	number := time.Now().UnixNano() / int64(b.slot)
	s := &b.slots[number%budgetSlots]
	if s.number != number {
		*s = budgetSlot{number: number}
	}
	return s
}

// rest returns how many retries are left. b.mu must be held.
func (b *RetryBudget) rest() float64 {
	first := b.now().number - budgetSlots
	calls, retries := 0, 0
	for i := range b.slots {
		if s := &b.slots[i]; s.number > first {
			calls += s.calls
			retries += s.retries
		}
	}
	return float64(b.config.Retries) + b.config.Ratio*float64(calls) - float64(retries)
}

func (b *RetryBudget) left() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rest()
}

// count counts a call that begins.
func (b *RetryBudget) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now().calls++
}

// take takes a retry, and reports whether there was one.
func (b *RetryBudget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rest() < 1-1e-9 { // ten calls of 0.1 are one
		return false
	}
	b.now().retries++
	return true
}

// giveBack undoes take.
func (b *RetryBudget) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now().retries--
}
