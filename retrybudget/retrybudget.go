package retrybudget

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
)

// A Budget limits the retries of all calls that share it, of one run or many. It
// is for many goroutines. Make one with [New].
type Budget struct {
	options Options
	slot    time.Duration

	mu    sync.Mutex
	slots [slots]slot // a ring, by the number of the slot
}

// Options say how many retries a [Budget] allows.
type Options struct {
	// Retries is how many retries are allowed in any window, however many calls
	// begin. Defaults to none; one of Retries and Ratio must be set.
	Retries int

	// Ratio is how many retries each call that begins in the window adds, such
	// as 0.1. Defaults to none.
	Ratio float64

	// Window is the length of the window. Defaults to 1 min.
	Window time.Duration
}

// slots is the number of slots that the window is divided into, and one more for
// the slot that is not over.
const slots = 11

type slot struct {
	number         int64 // of the slot, since the zero of the clock
	calls, retries int
}

// New panics if an option is out of range, or Retries and Ratio are both 0.
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
		panic("retrybudget: Options: Retries and Ratio are 0, which allows no retry at all; core.RetryConfig.Disabled says that")
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

// now returns the slot of the present, and empties it if it is from an earlier
// round. b.mu must be held.
func (b *Budget) now() *slot {
	number := time.Now().UnixNano() / int64(b.slot)
	s := &b.slots[number%slots]
	if s.number != number {
		*s = slot{number: number}
	}
	return s
}

// rest returns how many retries are left. b.mu must be held.
func (b *Budget) rest() float64 {
	first := b.now().number - slots
	calls, retries := 0, 0
	for i := range b.slots {
		if s := &b.slots[i]; s.number > first {
			calls += s.calls
			retries += s.retries
		}
	}
	return float64(b.options.Retries) + b.options.Ratio*float64(calls) - float64(retries)
}

// Interceptor returns what counts the calls that it is around, and takes a retry
// for each that is promised. When the budget is used up, a call that would be
// retried fails with [core.ErrBudget].
func (b *Budget) Interceptor() core.Interceptor {
	return core.Interceptor{
		Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
			if call.Number == 1 {
				b.count()
			}
			return next(ctx)
		},
		Retry: func(*core.CallInfo, error) (giveBack func(), refused error) {
			if !b.take() {
				return nil, fmt.Errorf("the retry budget %s is used up", b.text())
			}
			return b.giveBack, nil
		},
	}
}

// count counts a call that begins.
func (b *Budget) count() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now().calls++
}

// take takes a retry, and reports whether there was one.
func (b *Budget) take() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.rest() < 1-1e-9 { // ten calls of 0.1 are one
		return false
	}
	b.now().retries++
	return true
}

// giveBack undoes take.
func (b *Budget) giveBack() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now().retries--
}
