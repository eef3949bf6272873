package config

import (
	"math"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
)

// A Retry is a retry configuration that documents can contain. It is like [core.RetryConfig], but
// has error classes and conditions instead of functions. The zero value means the defaults.
type Retry struct {
	MaxAttempts    int // 0 for the default, or core.Unlimited
	Backoff        core.Backoff
	InitialDelay   time.Duration // 0 for the default, or core.NoDelay
	MaxDelay       time.Duration
	Multiplier     float64
	Jitter         core.Jitter
	AttemptTimeout time.Duration
	RetryTimeout   time.Duration
	MaxRetryAfter  time.Duration
	CapRetryAfter  bool
	MaxLosses      int  // core.Unlimited for no limit
	LossesCount    bool // an attempt during which the process ends counts as a failed attempt

	// RetryOn, if not nil, lists the classes of errors to retry. Exclude lists classes of errors
	// not to retry.
	RetryOn, Exclude []record.Class

	// RetryWhen and StopWhen are conditions on attempts, or nil.
	RetryWhen, StopWhen *condition.Condition
}

// Config returns the configuration in the form that actors and runs use.
func (r Retry) Config() core.RetryConfig {
	c := core.RetryConfig{
		MaxAttempts: r.MaxAttempts, Backoff: r.Backoff,
		InitialDelay: r.InitialDelay, MaxDelay: r.MaxDelay, Multiplier: r.Multiplier, Jitter: r.Jitter,
		AttemptTimeout: r.AttemptTimeout, RetryTimeout: r.RetryTimeout, MaxRetryAfter: r.MaxRetryAfter, CapRetryAfter: r.CapRetryAfter,
		MaxLosses: r.MaxLosses, LossesCount: r.LossesCount,
	}
	if r.RetryOn != nil {
		c.RetryOn = []core.Matcher{core.MatchClass(r.RetryOn...)}
	}
	if r.Exclude != nil {
		c.Exclude = []core.Matcher{core.MatchClass(r.Exclude...)}
	}
	if r.RetryWhen != nil {
		c.RetryWhen = r.RetryWhen.Holds
	}
	if r.StopWhen != nil {
		c.StopWhen = r.StopWhen.Holds
	}
	return c
}

const (
	wantRetry    = "true, false, a number of attempts, or a mapping such as {max_attempts: 5}"
	wantAttempts = "1 to 2147483647, including the first, or unlimited"
	wantLosses   = "1 to 2147483647, or unlimited"
	wantJitter   = "true, false, a fraction above 0 and up to 1, none, full or decorrelated"
	unlimited    = "unlimited"
)

var (
	backoffs = []string{core.Constant.String(), core.Linear.String(), core.Exponential.String(), core.Fibonacci.String()}
	classes  = classNames()
	jitters  = []string{"none", "full", "decorrelated"}
)

// classNames returns the names of all error classes, in the order of their values.
func classNames() (names []string) {
	for c := record.ClassUnknown; ; c++ {
		name := c.String()
		if new(record.Class).UnmarshalText([]byte(name)) != nil { // past the last class
			return names
		}
		names = append(names, name)
	}
}

// retry reads a configuration: a boolean, a number of attempts, or a mapping.
func (v value) retry() (r Retry) {
	switch {
	case v.isBool():
		if !v.bool(wantRetry) {
			r.MaxAttempts = 1
		}
	case v.isNumber():
		r.MaxAttempts = v.attemptsOr(wantAttempts)
	default:
		r = v.retryFields()
	}
	return r
}

func (v value) retryFields() (r Retry) {
	noDelay := false
	seconds := func(to *time.Duration) func(value) {
		return func(v value) { *to = v.duration(time.Second, "seconds") }
	}
	v.fields(wantRetry, map[string]func(value){
		"max_attempts":    func(v value) { r.MaxAttempts = v.attemptsOr(wantAttempts) },
		"backoff":         func(v value) { r.Backoff = core.Backoff(v.oneOf(backoffs) + 1) },
		"initial_delay":   func(v value) { r.InitialDelay = v.delay() },
		"max_delay":       func(v value) { r.MaxDelay = v.delay(); noDelay = r.MaxDelay == core.NoDelay },
		"multiplier":      func(v value) { r.Multiplier = v.number(1, maxMultiplier, "a number from 1 to 1000000") },
		"jitter":          func(v value) { r.Jitter = v.jitter() },
		"attempt_timeout": seconds(&r.AttemptTimeout),
		"retry_timeout":   seconds(&r.RetryTimeout),
		"max_retry_after": func(v value) { r.MaxRetryAfter = v.aboveZero() },
		"cap_retry_after": func(v value) { r.CapRetryAfter = v.bool("true or false") },
		"max_losses":      func(v value) { r.MaxLosses = v.attemptsOr(wantLosses) },
		"losses_count":    func(v value) { r.LossesCount = v.bool("true or false") },
		"retry_on":        func(v value) { r.RetryOn = v.classes() },
		"exclude":         func(v value) { r.Exclude = v.classes() },
		"retry_when":      func(v value) { r.RetryWhen = v.condition() },
		"stop_when":       func(v value) { r.StopWhen = v.condition() },
	})
	if noDelay { // if the maximum is 0, there can be no delay
		r.InitialDelay, r.MaxDelay = core.NoDelay, 0
	}
	if r.LossesCount && r.MaxLosses != 0 {
		v.fail("losses_count counts losses against max_attempts, but max_losses is set; want only one of them")
	}
	return r
}

const maxMultiplier = 1e6

// attemptsOr returns a number of attempts, or core.Unlimited for the word unlimited.
func (v value) attemptsOr(want string) int {
	if v.isText() && v.node.Value == unlimited {
		return core.Unlimited
	}
	return int(v.integer(1, math.MaxInt32, want))
}

// delay returns the value as a duration, or core.NoDelay if it is 0.
func (v value) delay() time.Duration { return orNoDelay(v.duration(time.Second, "seconds")) }

func (v value) aboveZero() time.Duration {
	problems := len(v.r.problems)
	d := v.duration(time.Second, "seconds")
	if d == 0 && len(v.r.problems) == problems {
		v.failWant("a duration above 0; leave it out for the default of 5m")
	}
	return d
}

func (v value) jitter() core.Jitter {
	switch {
	case v.isBool():
		if v.bool(wantJitter) {
			return 0
		}
		return core.NoJitter
	case v.isText():
		i := v.oneOf(jitters)
		return []core.Jitter{0, core.NoJitter, core.FullJitter, core.DecorrelatedJitter}[i+1]
	}
	return core.Jitter(v.number(math.SmallestNonzeroFloat64, 1, wantJitter))
}

func (v value) classes() []record.Class {
	found := []record.Class{}
	for _, item := range v.items("a list of error classes, such as [timeout, rate_limit]") {
		if i := item.oneOf(classes); i >= 0 {
			found = append(found, record.Class(i))
		}
	}
	return found
}

// condition compiles a condition. If the condition is invalid, the error is reported at its
// position in the document.
func (v value) condition() *condition.Condition {
	text := v.text("a condition, such as status_code >= 500")
	if !v.isText() {
		return nil
	}
	c, err := condition.Compile(text)
	if err != nil {
		v.fail("in the condition, at %v", err)
		return nil
	}
	return c
}
