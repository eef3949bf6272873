package core

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Breaker is a circuit breaker: it refuses attempts while the service that
// they call is failing. Package breaker has one. It is safe for many
// goroutines, and is shared by many runs.
//
// A breaker belongs to the process and is not stored. Recalled calls do not ask
// it, and in a new process it begins closed. A call that it had refused still
// waits for the rest of the delay that was promised.
type Breaker interface {
	// Allow asks for an attempt. An error refuses it and is a
	// *[BreakerOpenError]. Otherwise done must be called once with the result
	// of the attempt: nil for a success, ErrNotMade if the attempt says nothing
	// about the service, and otherwise an error whose class [record.Classify]
	// knows. Each change of state is passed to changed before Allow or done
	// returns.
	Allow(changed func(BreakerChange)) (done func(error), err error)
}

// A BreakerChange is a change of the state of a circuit breaker.
type BreakerChange struct {
	Breaker string        // the name
	State   string        // "open", "half_open" or "closed"
	For     time.Duration // how long it stays open
}

// text returns a line such as `circuit breaker "payments" is open for 30s`.
func (c BreakerChange) text() string {
	switch c.State {
	case "open":
		return fmt.Sprintf("circuit breaker %q is open for %v", c.Breaker, c.For)
	case "half_open":
		return fmt.Sprintf("circuit breaker %q is half open: it lets a probe through", c.Breaker)
	}
	return fmt.Sprintf("circuit breaker %q is %s", c.Breaker, c.State)
}

// ErrNotMade is passed to a [Breaker] for an attempt that says nothing about
// the service that it called: it was interrupted, or it panicked.
var ErrNotMade = errors.New("core: the attempt was not made to its end")

// A BreakerOpenError refuses an attempt: its handler does not run. Its class is
// [record.ClassBreaker].
type BreakerOpenError struct {
	Breaker string        // the name
	After   time.Duration // when the breaker lets an attempt through again; 0 while another probes
}

// Error is a line such as `circuit breaker "payments" is open for another 5s`.
func (e *BreakerOpenError) Error() string {
	if e.After <= 0 {
		return fmt.Sprintf("circuit breaker %q is open while another call probes", e.Breaker)
	}
	return fmt.Sprintf("circuit breaker %q is open for another %v", e.Breaker, e.After)
}

// Class is [record.ClassBreaker].
func (e *BreakerOpenError) Class() record.Class { return record.ClassBreaker }

// RetryAfter is After.
func (e *BreakerOpenError) RetryAfter() time.Duration { return e.After }

func init() { record.RegisterErrorType[*BreakerOpenError]("core.BreakerOpenError") }

// guard holds what attempts wait for and what may refuse them. It does not
// change.
type guard struct {
	slot     Slot // nil for none
	breakers []Breaker
	budgets  []*RetryBudget
}

// with returns the guard with b and budget added unless they are nil. The
// result is nil if there is nothing in it.
func (g *guard) with(b Breaker, budget *RetryBudget) *guard {
	if b == nil && budget == nil {
		return g
	}
	var own guard
	if g != nil {
		own = guard{g.slot, slices.Clip(g.breakers), slices.Clip(g.budgets)}
	}
	if b != nil {
		own.breakers = append(own.breakers, b)
	}
	if budget != nil {
		own.budgets = append(own.budgets, budget)
	}
	return &own
}

// passGuarded makes a pass if no breaker refuses it, and reports its result to
// the breakers.
func (c *call) passGuarded(s *Scope, began time.Time, spent time.Duration) result {
	if s.attempt == 0 {
		for _, b := range c.guard.budgets {
			b.count()
		}
	}
	var asked []func(error)
	ended := ErrNotMade // also where the handler ends its goroutine
	defer func() {
		for _, done := range asked {
			done(ended)
		}
	}()
	for _, b := range c.guard.breakers {
		done, err := b.Allow(c.logChange)
		if err != nil {
			s.close()
			return result{err: err, stage: record.StageHandler}
		}
		asked = append(asked, done)
	}
	r := c.pass(s, began, spent)
	switch {
	case r.err == nil && !r.cached:
		ended = nil
	case r.err == nil:
	case !r.panicked && c.suspension(s, r.err) == nil:
		ended = &classedError{r.err, classify(attempted{result: r}).class}
	}
	return r
}

// logChange records that a breaker changed its state, with the address of the
// call that caused it.
func (c *call) logChange(change BreakerChange) {
	if c.root.isOutside() {
		return
	}
	level := slog.LevelInfo
	if change.State == "open" {
		level = slog.LevelWarn
	}
	// The line is lost if the run is closed.
	_ = c.root.run.Append(nil, record.Record{
		Time: time.Now().Round(0).UTC(), Kind: record.KindLog, Status: record.StatusRecorded, Address: c.address,
		Detail: &record.Detail{
			Severity: level, Message: change.text(), Metadata: map[string]any{"breaker": change.Breaker, "state": change.State},
		},
	})
}

// mayRetry takes a retry from each budget. It reports false, and takes none, if
// a budget is used up.
func (g *guard) mayRetry() bool {
	for i, b := range g.budgets {
		if !b.take() {
			for _, taken := range g.budgets[:i] {
				taken.giveBack()
			}
			return false
		}
	}
	return true
}

// usedUp names the budget that is used up.
func (g *guard) usedUp() string {
	for _, b := range g.budgets {
		if b.left() < 1 {
			return b.text() + " is used up"
		}
	}
	return "was used up"
}
