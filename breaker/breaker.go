package breaker

import (
	"context"
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

// Breaker is a circuit breaker: it refuses attempts while the service that they
// call is failing. It is for many goroutines, and is shared by many runs. Make
// one with [New].
//
// A breaker belongs to the process and is not stored: in a new process it begins
// closed. A call that it had refused still waits for the rest of the delay that
// was promised.
type Breaker struct {
	name string

	mu      sync.Mutex // held while gobreaker is called, so that what changed is the caller's doing
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	until   time.Time // when it lets an attempt through again, if it is open
	changes []change
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
		IsExcluded:   func(err error) bool { return err == errNotMade }, //nolint:errorlint // itself
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
	change := change{breaker: b.name}
	switch to {
	case gobreaker.StateOpen:
		change.state, change.openFor = "open", openFor
		b.until = time.Now().Add(openFor)
	case gobreaker.StateHalfOpen:
		change.state = "half_open"
	case gobreaker.StateClosed:
		change.state = "closed"
	}
	b.changes = append(b.changes, change)
}

// Interceptor returns what asks the breaker before each attempt and reports to it
// how the attempt ended. An attempt that it refuses fails with an [*OpenError].
// Changes of its state are lines in the log of the run whose call caused them.
func (b *Breaker) Interceptor() core.Interceptor {
	return core.Interceptor{Attempt: b.attempt}
}

func (b *Breaker) attempt(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
	done, err := b.allow(call)
	if err != nil {
		return err
	}
	ended := errNotMade // also where the handler ends its goroutine
	defer func() { done(ended) }()
	err = next(ctx)
	if !call.Answered() && isOfService(err) {
		ended = err
	}
	return err
}

// errNotMade stands for an attempt that says nothing about the service.
var errNotMade = errors.New("breaker: the attempt was not made to its end")

// isOfService reports whether the end of an attempt says something about the
// service: it was not interrupted, it did not panic, and no breaker refused it.
func isOfService(err error) bool {
	if err == nil {
		return true
	}
	class := record.Classify(err)
	return !core.IsSuspension(err) && class != record.ClassPanic && class != record.ClassBreaker
}

// allow asks for an attempt. Unless that is refused, done must be called once
// with its end.
func (b *Breaker) allow(call *core.CallInfo) (done func(error), err error) {
	b.mu.Lock()
	end, err := b.circuit.Allow()
	changes, after := b.take(), time.Until(b.until)
	b.mu.Unlock()
	log(call, changes)
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		// It opens after that instant, not with it.
		return nil, &OpenError{Breaker: b.name, After: max(after, 0).Truncate(time.Millisecond) + time.Millisecond}
	case err != nil:
		return nil, &OpenError{Breaker: b.name}
	}
	return func(err error) {
		b.mu.Lock()
		end(err)
		changes := b.take()
		b.mu.Unlock()
		log(call, changes)
	}, nil
}

// take returns the changes since the last time. The lock is held.
func (b *Breaker) take() []change {
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
