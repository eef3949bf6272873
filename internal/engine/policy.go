package engine

import (
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Policy determines how a call is retried. Package core makes it from a RetryConfig. A Policy
// never changes.
type Policy struct {
	MaxAttempts    int // or Unlimited
	MaxLosses      int // 0 for the run's default, or Unlimited
	LossesCount    bool
	AttemptTimeout time.Duration // 0 for none
	RetryTimeout   time.Duration // 0 for none
	MaxRetryAfter  time.Duration
	CapRetryAfter  bool

	Retries  Retries
	Jittered bool // the delays are random
	Judges   bool // Retries decides which failures are retried, rather than their classes
	Polls    bool // Retries also decides which successes are followed by another attempt

	// ByClass is set if the configuration enables retries and only the class of an
	// error determines whether it is retried.
	ByClass bool

	Err error // why the configuration of an event is invalid; nil if it is valid
}

// Retries makes the decisions for a policy. Judge and Poll call the user's functions, which may
// panic.
type Retries interface {
	// Delay returns the delay before retry n (counted from 1). previous is the delay before the
	// previous retry, or 0 if there was none. u is a random number in [0, 1).
	Delay(n int, previous time.Duration, u float64) time.Duration

	// Judge reports whether to retry after a failed attempt. classed is the attempt's error, with
	// the class that was determined for it.
	Judge(a Attempt, classed error, byDefault bool) bool

	// Poll reports whether another attempt follows a successful one.
	Poll(a Attempt) bool
}

// An Attempt is an attempt in the form that is passed to the user's functions.
type Attempt struct {
	Number int   // from 1
	Err    error // nil if it succeeded
	Output any   // the zero value if the attempt failed

	RunID   string         // empty outside a run
	Address record.Address // address of the call; zero outside a run
}

const (
	// Unlimited is the value of MaxAttempts and MaxLosses that means no limit.
	Unlimited = -1
	// NoTimeout is the value of an LLM's AttemptTimeout that means no limit.
	NoTimeout time.Duration = -1
)

// llmTimeout is the default timeout for attempts of LLMs. The clients of the large services use the
// same timeout.
const llmTimeout = 10 * time.Minute

// timeout returns the timeout for each attempt of the actor if p is the policy, or 0 for none. The
// actor's own timeout takes precedence unless the policy belongs to an event.
func (p *Policy) timeout(actor *Spec, ofEvent bool) time.Duration {
	timeout := actor.AttemptTimeout
	if ofEvent && p.AttemptTimeout > 0 || timeout == 0 {
		timeout = p.AttemptTimeout
	}
	switch {
	case timeout == NoTimeout:
		return 0
	case timeout == 0 && actor.Kind == record.KindLLM:
		return llmTimeout
	}
	return timeout
}
