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

// Options configure a [Breaker].
type Options struct {
	// Name is the name of the service, used in errors and records. Required.
	Name string

	// Failures is the number of consecutive failed attempts that opens the breaker, however
	// long they take. Defaults to 5, or to no such limit if Ratio is set.
	Failures int

	// Ratio is the fraction of failed attempts within Window that opens the breaker, once at least
	// MinAttempts attempts have ended within Window. Ratio must be greater than 0 and at most 1. By
	// default, there is no such limit.
	Ratio float64

	// MinAttempts is the minimum number of attempts that must have ended within Window for Ratio to
	// apply. Defaults to 10.
	MinAttempts int

	// Window is the period over which a closed breaker counts attempts for Ratio. An attempt counts
	// when it ends. Defaults to 1 min.
	Window time.Duration

	// OpenFor is how long an open breaker refuses all attempts. It then lets probes
	// through. Defaults to 30 s.
	OpenFor time.Duration

	// Probes is the number of attempts that are let through to probe the service. If
	// all succeed, the breaker closes; the first failure opens it again. Defaults to 1.
	Probes int

	// Counts reports whether the error of an attempt counts as a failure of the service. Any other
	// error counts as a success, because it means that the service has answered. Interrupted
	// attempts and panics are not counted at all. By default, timeouts, network errors and the HTTP
	// statuses 408, 425, 429 and 5xx are failures.
	Counts func(error) bool
}

// A Breaker is a circuit breaker: it refuses attempts while the service that they call is failing.
// It is safe for concurrent use, and is usually shared by many runs. Create one with [New].
//
// The state of a breaker is not stored, so in a new process the breaker is closed. A call that was
// refused before a restart still waits for the rest of its delay.
type Breaker struct {
	name string

	counts func(error) bool

	mu      sync.Mutex // held during calls to gobreaker, so that changes can be attributed to the caller
	circuit *gobreaker.TwoStepCircuitBreaker[struct{}]
	until   time.Time // when an open breaker lets probes through
	failed  int       // consecutive failed attempts since the breaker was last closed
	changed int       // how often the state has changed
	changes []change
}

// New returns a closed breaker. It panics if an option is out of range.
func New(o Options) *Breaker {
	o.check()
	b := &Breaker{name: o.Name, counts: o.Counts}
	b.circuit = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Name: o.Name, MaxRequests: uint32(o.Probes), Interval: o.Window, BucketPeriod: o.Window / 10, Timeout: o.OpenFor,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			ended := c.TotalSuccesses + c.TotalFailures
			return o.Failures > 0 && b.failed >= o.Failures ||
				o.Ratio > 0 && ended >= uint32(o.MinAttempts) && float64(c.TotalFailures) >= o.Ratio*float64(ended)
		},
		IsExcluded: func(err error) bool { return err == errInconclusive }, //nolint:errorlint // compares identity
		OnStateChange: func(_ string, _, to gobreaker.State) {
			b.noteChange(to, o.OpenFor)
		},
	})
	return b
}

// check validates the options and fills in defaults. It panics if an option is out of
// range.
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

// isFailure calls f, which is the user's Counts function. If f panics, the error counts as a
// failure.
func isFailure(f func(error) bool, err error) (failed bool) {
	defer func() {
		if recover() != nil {
			failed = true
		}
	}()
	return f(err)
}

// isOutage reports whether err was caused by the called service.
func isOutage(err error) bool {
	switch class := record.Classify(err); class {
	case record.ClassCondition, record.ClassArtifact, record.ClassBreaker: // errors that did not come from the service
		return false
	default:
		return class.IsTransient()
	}
}

// noteChange records a change of state. The caller holds b.mu.
func (b *Breaker) noteChange(to gobreaker.State, openFor time.Duration) {
	change := change{breaker: b.name, state: stateName(to)}
	if to == gobreaker.StateOpen {
		change.openFor, b.until = openFor, time.Now().Add(openFor)
	}
	b.changes = append(b.changes, change)
	b.changed++
	b.failed = 0
}

// Interceptor returns an interceptor that asks the breaker before each attempt, and reports the
// result of the attempt to it. A refused attempt fails with an [*OpenError]. Each change of the
// breaker's state is logged in the run whose call caused it.
func (b *Breaker) Interceptor() core.Interceptor {
	return core.Interceptor{Attempt: b.attempt}
}

func (b *Breaker) attempt(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
	done, err := b.allow(call)
	if err != nil {
		return err
	}
	ended := errInconclusive // result if the handler or Options.Counts calls runtime.Goexit
	defer func() { done(ended) }()
	err = next(ctx)
	switch {
	case call.Answered() || !isConclusive(err):
	case err != nil && isFailure(b.counts, err): // not holding b.mu, since Counts may call State
		ended = err
	default:
		ended = nil
	}
	return err
}

// errInconclusive is the result of an attempt that says nothing about the service.
var errInconclusive = errors.New("breaker: the attempt was not completed")

// isConclusive reports whether the result of an attempt says something about the service. It does
// if the attempt was not interrupted, did not panic, and was not refused by a breaker.
func isConclusive(err error) bool {
	if err == nil {
		return true
	}
	class := record.Classify(err)
	return !core.IsSuspension(err) && class != record.ClassPanic && class != record.ClassBreaker
}

// allow asks the breaker whether an attempt may begin. If it may, done must be called once, with
// the result of the attempt.
func (b *Breaker) allow(call *core.CallInfo) (done func(error), err error) {
	b.mu.Lock()
	end, err := b.circuit.Allow()
	begun := b.changed
	changes, after := b.takeChanges(), time.Until(b.until)
	b.mu.Unlock()
	log(call, changes)
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		// Add a millisecond, since the breaker is still open at the exact end of its time.
		return nil, &OpenError{Breaker: b.name, After: max(after, 0).Truncate(time.Millisecond) + time.Millisecond}
	case err != nil:
		return nil, &OpenError{Breaker: b.name}
	}
	return func(err error) {
		b.mu.Lock()
		if b.changed == begun && b.circuit.State() == gobreaker.StateClosed {
			end = b.count(end, err)
		}
		end(err)
		changes := b.takeChanges()
		b.mu.Unlock()
		log(call, changes)
	}, nil
}

// count counts the result of an attempt that began and ended while the breaker was closed.
// gobreaker would count the result in the window in which the attempt began, and would forget it if
// that window is over. Therefore, count discards the attempt, begins another one now, and returns
// the end function of the new one, which the caller calls with the result. The caller holds b.mu.
func (b *Breaker) count(end func(error), err error) func(error) {
	if err == errInconclusive { //nolint:errorlint // compares identity
		return end
	}
	if b.failed++; err == nil {
		b.failed = 0
	}
	end(errInconclusive)
	now, _ := b.circuit.Allow() // allowed, since the breaker is closed
	return now
}

// takeChanges returns the changes since its last call. The caller holds b.mu.
func (b *Breaker) takeChanges() []change {
	changes := b.changes
	b.changes = nil
	return changes
}

// State returns "closed", "half_open" or "open".
func (b *Breaker) State() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return stateName(b.circuit.State())
}

func stateName(s gobreaker.State) string {
	switch s {
	case gobreaker.StateOpen:
		return "open"
	case gobreaker.StateHalfOpen:
		return "half_open"
	}
	return "closed"
}
