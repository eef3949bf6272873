package core

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// RetryConfig sets how often, when and for which errors a call is retried. The zero value means
// three attempts with exponential backoff from one second and ±25 % of jitter, for errors of a
// transient [record.Class].
//
// Levels are not merged: only the most specific configuration that is set applies (see
// [ExecutionEvent.WithRetry]). If none is set, tools and LLMs have the zero value with a MaxDelay
// of 30 seconds, and all other calls have one attempt.
type RetryConfig struct {
	// MaxAttempts counts all attempts, including the first: 1 disables retries. Defaults to 3;
	// Unlimited sets no limit.
	MaxAttempts int

	// Backoff determines how delays grow. Defaults to Exponential.
	Backoff Backoff

	// InitialDelay is the delay before the first retry, before jitter.
	// Defaults to 1 s; NoDelay retries at once.
	InitialDelay time.Duration

	// MaxLosses is how often in a row the process may end while the same attempt is running. Such
	// an attempt is lost, but has not failed: it is made again, and counts towards neither
	// MaxAttempts nor RetryTimeout. After MaxLosses losses without an outcome inside the call, the
	// run is interrupted with the reason crash_loop; resuming the run allows as many losses again.
	// A loss counts only for the innermost call that was running. Defaults to the run's value
	// (state.WithMaxLosses), which is 5 by default; Unlimited sets no limit.
	MaxLosses int

	// LossesCount makes a lost attempt count as a failed one: the next attempt gets the next
	// number, and after the last attempt the call fails with [ErrInDoubt]. MaxLosses must then not
	// be set. For agents, groups and branches, a lost attempt is always made again.
	LossesCount bool

	// MaxDelay limits every delay, including its jitter, except for a delay that a service requests
	// with Retry-After. Defaults to 60 s, or to InitialDelay if that is longer.
	MaxDelay time.Duration

	// Multiplier is the factor by which the Exponential backoff increases each delay. It must be 1
	// or more. Defaults to 2.
	Multiplier float64

	// Jitter spreads delays. Defaults to ±25 %.
	Jitter Jitter

	// AttemptTimeout limits the time of each attempt: the attempt's context ends, and a handler
	// that does not return within 50 ms is abandoned. Defaults to none. The actor's own attempt
	// timeout takes precedence, unless this configuration was set for a single call, by
	// [ExecutionEvent.WithRetry].
	AttemptTimeout time.Duration

	// RetryTimeout limits the total time of a call's attempts and waits, and therefore also that of
	// a single attempt. A wait that would exceed the limit does not begin. The time during which
	// the call is suspended, because its run was interrupted or waits for an answer, does not
	// count. Defaults to none.
	RetryTimeout time.Duration

	// MaxRetryAfter is the longest delay that a service may ask for. If a service asks for more,
	// the call fails at once. Defaults to 5 min.
	MaxRetryAfter time.Duration

	// CapRetryAfter shortens a requested delay above MaxRetryAfter to MaxRetryAfter, instead of
	// failing the call.
	CapRetryAfter bool

	// RetryOn, if not nil, selects the errors that are retried, regardless of their class and
	// marks. Permanent errors, panics, and failures of preconditions, definitions and encodings are
	// never retried.
	RetryOn []Matcher

	// Exclude selects errors that are not retried.
	Exclude []Matcher

	// RetryWhen, if set, replaces the default decision by class: a failed attempt that Exclude and
	// RetryOn let through is retried only if RetryWhen returns true. RetryWhen is also called after
	// a success: if it returns true, another attempt is made. This is useful for polling.
	RetryWhen func(Attempt) bool

	// StopWhen is called after Exclude, and before RetryOn and RetryWhen: if it returns true, the
	// call is not retried. If RetryWhen is set, StopWhen is also called after a success.
	StopWhen func(Attempt) bool
}

const (
	// Unlimited is the value of MaxAttempts and MaxLosses that means no limit.
	Unlimited = engine.Unlimited
	// NoDelay is the value of InitialDelay that means no delay.
	NoDelay time.Duration = -1
	// NoTimeout is the value of [Spec].AttemptTimeout that means no time limit, even for an LLM.
	NoTimeout = engine.NoTimeout
)

// An Attempt describes a finished attempt to RetryWhen and StopWhen.
type Attempt struct {
	Number int   // from 1
	Err    error // nil if it succeeded
	Output any   // a value of the actor's output type; the zero value if the attempt failed

	RunID   string         // empty outside a run
	Address record.Address // address of the call; zero outside a run
}

// Validate returns an error that lists every field that is out of range, with its value and the
// allowed values.
func (c RetryConfig) Validate() error {
	var problems []error
	check := func(ok bool, field string, value any, allowed string) {
		if !ok {
			problems = append(problems, fmt.Errorf("core: RetryConfig.%s is %v; want %s", field, value, allowed))
		}
	}
	check(c.MaxAttempts >= 0 || c.MaxAttempts == Unlimited, "MaxAttempts", c.MaxAttempts, "1 or more, 0 for the default of 3, or core.Unlimited")
	check(c.MaxLosses >= 0 || c.MaxLosses == Unlimited, "MaxLosses", c.MaxLosses, "1 or more, 0 for the default of the run, or core.Unlimited")
	check(!c.LossesCount || c.MaxLosses == 0, "MaxLosses", fmt.Sprintf("%d although LossesCount is set", c.MaxLosses), "0, since MaxAttempts then limits losses")
	check(c.Backoff <= Fibonacci, "Backoff", c.Backoff, "Constant, Linear, Exponential or Fibonacci")
	check(c.InitialDelay >= 0 || c.InitialDelay == NoDelay, "InitialDelay", c.InitialDelay, "more than 0, 0 for the default of 1s, or core.NoDelay")
	check(c.MaxDelay >= 0, "MaxDelay", c.MaxDelay, "more than 0, or 0 for the default of 1m0s (or InitialDelay, if longer)")
	check(c.Multiplier == 0 || c.Multiplier >= 1 && !math.IsInf(c.Multiplier, 1), "Multiplier", c.Multiplier, "1 or more and finite, or 0 for the default of 2")
	check(c.Jitter.valid(), "Jitter", float64(c.Jitter), "a fraction more than 0 and up to 1, NoJitter, FullJitter, DecorrelatedJitter, or 0 for the default of 0.25")
	check(c.AttemptTimeout >= 0, "AttemptTimeout", c.AttemptTimeout, "a positive duration, or 0 for none")
	check(c.RetryTimeout >= 0, "RetryTimeout", c.RetryTimeout, "a positive duration, or 0 for none")
	check(c.MaxRetryAfter >= 0, "MaxRetryAfter", c.MaxRetryAfter, "more than 0, or 0 for the default of 5m0s")
	check(!hasNil(c.RetryOn), "RetryOn", "a list with a nil Matcher, such as MatchIs(nil)", "a list of Matchers, such as core.MatchIs(err)")
	check(!hasNil(c.Exclude), "Exclude", "a list with a nil Matcher, such as MatchIs(nil)", "a list of Matchers, such as core.MatchIs(err)")
	return errors.Join(problems...)
}

func hasNil(matchers []Matcher) bool {
	for _, m := range matchers {
		if m == nil {
			return true
		}
	}
	return false
}

// WithDefaults returns c with its defaults filled in. An InitialDelay of NoDelay is kept. The error
// comes from Validate.
func (c RetryConfig) WithDefaults() (RetryConfig, error) {
	if err := c.Validate(); err != nil {
		return RetryConfig{}, err
	}
	setDefault(&c.MaxAttempts, 3)
	c.MaxAttempts = min(c.MaxAttempts, math.MaxInt32) // the largest number that records can hold
	setDefault(&c.Backoff, Exponential)
	setDefault(&c.InitialDelay, time.Second)
	setDefault(&c.MaxDelay, max(time.Minute, c.InitialDelay))
	setDefault(&c.Multiplier, 2)
	setDefault(&c.Jitter, defaultJitter)
	setDefault(&c.MaxRetryAfter, 5*time.Minute)
	c.RetryOn, c.Exclude = slices.Clone(c.RetryOn), slices.Clone(c.Exclude)
	return c, nil
}

// Policy converts c to the form that the engine needs. The error comes from Validate.
func (c RetryConfig) Policy() (*engine.Policy, error) {
	full, err := c.WithDefaults()
	if err != nil {
		return nil, err
	}
	c = full
	c.InitialDelay = max(c.InitialDelay, 0) // NoDelay is negative
	judges := c.Exclude != nil || c.StopWhen != nil || c.RetryOn != nil || c.RetryWhen != nil
	return &engine.Policy{
		MaxAttempts: c.MaxAttempts, MaxLosses: c.MaxLosses, LossesCount: c.LossesCount,
		AttemptTimeout: c.AttemptTimeout, RetryTimeout: c.RetryTimeout,
		MaxRetryAfter: c.MaxRetryAfter, CapRetryAfter: c.CapRetryAfter,
		Retries: (*retries)(&c), Jittered: c.Jitter != NoJitter && c.InitialDelay > 0,
		Judges: judges, Polls: c.RetryWhen != nil, ByClass: !judges && c.MaxAttempts != 1,
	}, nil
}

// retries is a configuration in the form that the engine needs: its defaults are filled in, and an
// InitialDelay of 0 means no delay.
type retries RetryConfig

// Judge implements [engine.Retries]. It applies Exclude, StopWhen, RetryOn and RetryWhen, in this
// order.
func (c *retries) Judge(a engine.Attempt, classed error, byDefault bool) bool {
	switch {
	case matchesAny(c.Exclude, classed):
		return false
	case c.StopWhen != nil && c.StopWhen(Attempt(a)):
		return false
	case c.RetryOn != nil && !matchesAny(c.RetryOn, classed):
		return false
	case c.RetryWhen != nil:
		return c.RetryWhen(Attempt(a))
	}
	return c.RetryOn != nil || byDefault
}

// Poll implements [engine.Retries].
func (c *retries) Poll(a engine.Attempt) bool {
	return (c.StopWhen == nil || !c.StopWhen(Attempt(a))) && c.RetryWhen(Attempt(a))
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// builtIn returns the policy that applies if no level is set: three attempts for tools and LLMs,
// and one attempt for agents, because they handle failures themselves.
func builtIn(k record.Kind) *engine.Policy {
	if k == record.KindAgent {
		return builtInNoRetry
	}
	return builtInRetry
}

var (
	builtInNoRetry = mustPolicy(RetryConfig{MaxAttempts: 1})
	builtInRetry   = mustPolicy(RetryConfig{MaxDelay: 30 * time.Second})
)

// mustPolicy returns the policy of a built-in configuration.
func mustPolicy(c RetryConfig) *engine.Policy {
	p, err := c.Policy()
	if err != nil {
		panic(err)
	}
	p.ByClass = false // because no user has configured it
	return p
}
