package breaker

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

// Options say when a breaker opens and closes.
type Options struct {
	// Name is that of what the actors call, for errors and records. Required.
	Name string

	// Failures is how many attempts in a row must fail for the breaker to open.
	// Defaults to 5, or to none if Ratio is set.
	Failures int

	// Ratio is which part of the attempts within Window must fail for the
	// breaker to open, from MinAttempts on: above 0 and up to 1. Defaults to
	// none.
	Ratio float64

	// MinAttempts is how many attempts Window must have before Ratio counts.
	// Defaults to 10.
	MinAttempts int

	// Window is the time within which attempts count, while the breaker is
	// closed. Defaults to 1 min.
	Window time.Duration

	// OpenFor is how long the breaker refuses attempts before it lets the first
	// through. Defaults to 30 s.
	OpenFor time.Duration

	// Probes is how many attempts it lets through then, and how many of them must
	// succeed for it to close. The first that fails opens it again. Defaults to
	// 1.
	Probes int

	// Counts reports whether an error of an attempt is a failure of what it
	// called; any other counts as a success, as that has answered. Attempts that
	// were interrupted, and panics, count as nothing. Defaults to timeouts,
	// errors of the network, HTTP 408, 425, 429 and 5xx.
	Counts func(error) bool
}

// Breaker is a circuit breaker. It implements core.Breaker and is for many
// goroutines. Make one with [New].
type Breaker struct {
	name string

	mu      sync.Mutex // held while gobreaker is called, so that what changed is the caller's doing
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	until   time.Time // when it lets an attempt through again, if it is open
	changes []core.BreakerChange
}

// New panics if an option is out of range.
func New(o Options) *Breaker {
	o.check()
	b := &Breaker{name: o.Name}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: o.Name, MaxRequests: uint32(o.Probes), Interval: o.Window, BucketPeriod: o.Window / 10, Timeout: o.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			return o.Failures > 0 && c.ConsecutiveFailures >= uint32(o.Failures) ||
				o.Ratio > 0 && c.Requests >= uint32(o.MinAttempts) && float64(c.TotalFailures) >= o.Ratio*float64(c.Requests)
		},
		IsExcluded:   func(err error) bool { return err == core.ErrNotMade }, //nolint:errorlint // itself
		IsSuccessful: func(err error) bool { return err == nil || !counts(o.Counts, err) },
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.note(to, o.OpenFor)
		},
	})
	return b
}

// check fills in the defaults.
func (o *Options) check() {
	must := func(ok bool, field string, value any, allowed string) {
		if !ok {
			panic(fmt.Sprintf("breaker: Options.%s is %v; want %s", field, value, allowed))
		}
	}
	must(core.CheckName(o.Name) == nil, "Name", fmt.Sprintf("%q", o.Name), "1 to 128 bytes of printable text")
	must(o.Failures >= 0 && o.Failures <= math.MaxInt32, "Failures", o.Failures, "1 or more, or 0 for the default of 5")
	must(o.Ratio >= 0 && o.Ratio <= 1, "Ratio", o.Ratio, "more than 0 and up to 1, or 0 for none")
	must(o.MinAttempts >= 0 && o.MinAttempts <= math.MaxInt32, "MinAttempts", o.MinAttempts, "1 or more, or 0 for the default of 10")
	must(o.Window == 0 || o.Window >= time.Millisecond, "Window", o.Window, "1ms or more, or 0 for the default of 1m0s")
	must(o.OpenFor >= 0, "OpenFor", o.OpenFor, "more than 0, or 0 for the default of 30s")
	must(o.Probes >= 0 && o.Probes <= math.MaxInt32, "Probes", o.Probes, "1 or more, or 0 for the default of 1")
	setDefault(&o.Window, time.Minute)
	setDefault(&o.OpenFor, 30*time.Second)
	setDefault(&o.Probes, 1)
	setDefault(&o.MinAttempts, 10)
	if o.Ratio == 0 {
		setDefault(&o.Failures, 5)
	}
	if o.Counts == nil {
		o.Counts = isOutage
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// counts asks a function of the user. One that panics has not said that it was
// no failure.
func counts(f func(error) bool, err error) (failed bool) {
	defer func() {
		if recover() != nil {
			failed = true
		}
	}()
	return f(err)
}

// isOutage reports whether the error is one that what was called is to blame
// for.
func isOutage(err error) bool {
	switch class := record.Classify(err); class {
	case record.ClassCondition, record.ClassArtifact, record.ClassBreaker: // which came from elsewhere
		return false
	default:
		return class.IsTransient()
	}
}

// note takes in a change of state. The lock is held.
func (b *Breaker) note(to gobreaker.State, openFor time.Duration) {
	change := core.BreakerChange{Breaker: b.name}
	switch to {
	case gobreaker.StateOpen:
		change.State, change.For = "open", openFor
		b.until = time.Now().Add(openFor)
	case gobreaker.StateHalfOpen:
		change.State = "half_open"
	case gobreaker.StateClosed:
		change.State = "closed"
	}
	b.changes = append(b.changes, change)
}

// Allow implements core.Breaker.
func (b *Breaker) Allow(changed func(core.BreakerChange)) (done func(error), err error) {
	b.mu.Lock()
	end, err := b.circuit.Allow()
	changes, after := b.take(), time.Until(b.until)
	b.mu.Unlock()
	for _, change := range changes {
		changed(change)
	}
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		// It opens after that instant, not with it.
		return nil, &core.BreakerOpenError{Breaker: b.name, After: max(after, 0).Truncate(time.Millisecond) + time.Millisecond}
	case err != nil:
		return nil, &core.BreakerOpenError{Breaker: b.name}
	}
	return func(err error) {
		b.mu.Lock()
		end(err)
		changes := b.take()
		b.mu.Unlock()
		for _, change := range changes {
			changed(change)
		}
	}, nil
}

// take returns the changes since the last time. The lock is held.
func (b *Breaker) take() []core.BreakerChange {
	changes := b.changes
	b.changes = nil
	return changes
}

// State returns "closed", "half_open" or "open".
func (b *Breaker) State() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch b.circuit.State() {
	case gobreaker.StateOpen:
		return "open"
	case gobreaker.StateHalfOpen:
		return "half_open"
	}
	return "closed"
}

// Name returns the name from the options.
func (b *Breaker) Name() string { return b.name }
