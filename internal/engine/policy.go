package engine

import (
	"time"

	"github.com/reprise-go/reprise/record"
)

// A Policy says how a call is retried. Package core makes it of a RetryConfig. It does
// not change.
type Policy struct {
	MaxAttempts    int // or Unlimited
	MaxLosses      int // 0 for the default of the run; or Unlimited
	LossesCount    bool
	AttemptTimeout time.Duration // 0 for none
	RetryTimeout   time.Duration // 0 for none
	MaxRetryAfter  time.Duration
	CapRetryAfter  bool

	Retries  Retries
	Jittered bool // delays are random
	Judges   bool // Retries decides which failures are retried; otherwise their classes do
	Polls    bool // Retries decides about successes, too

	// ByClass is set if somebody has configured that errors are retried, and it depends
	// on their classes alone which ones.
	ByClass bool

	Err error // why the configuration of an event is invalid; nil if it is valid
}

// Retries is the part of a policy that computes. Judge and Poll call functions of the
// user, which may panic.
type Retries interface {
	// Delay returns the delay before retry n, from 1. Previous is the delay before the
	// previous retry, 0 if there was none; u is a random number in [0, 1).
	Delay(n int, previous time.Duration, u float64) time.Duration

	// Judge reports whether a failed attempt is retried. Classed is its error with the
	// class that was decided for it.
	Judge(a Attempt, classed error, byDefault bool) bool

	// Poll reports whether an attempt follows one that succeeded.
	Poll(a Attempt) bool
}

// Attempt is an attempt as functions of the user see it.
type Attempt struct {
	Number int   // from 1
	Err    error // nil if it succeeded
	Output any   // the zero value if it failed

	RunID   string         // empty outside a run
	Address record.Address // of the call; zero outside a run
}

const (
	// Unlimited is a MaxAttempts without a limit.
	Unlimited = -1
	// NoTimeout is the AttemptTimeout of an LLM whose calls have no limit.
	NoTimeout time.Duration = -1
)

// llmTimeout is the default timeout of attempts of LLMs. It is what the clients
// of the large services use.
const llmTimeout = 10 * time.Minute

// timeout returns the timeout of each attempt of the actor under the policy; 0
// for none. The actor's own timeout takes precedence, except over that of an
// event.
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
