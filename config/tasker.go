package config

import (
	"math"

	"github.com/reprise-go/reprise/core"
)

// ReadTasker reads the retry configuration of a step of Tasker, as YAML or JSON:
// the mapping at its key retry. The other keys of a step are not looked at.
// Every error but a permanent one is retried; there is no jitter; max_attempts
// includes the first, which always runs; what a service asks for by Retry-After
// is cut to max_backoff_ms. A whole task, or a list of steps, is an error.
// Warnings say what has another effect than it seems.
func ReadTasker(step []byte) (r Retry, warnings []Problem, err error) {
	warnings, err = readStep(step, func(v value) {
		v.step("Tasker", "retry", map[string]func(value){"retry": func(v value) { r = v.tasker() }})
	})
	if err != nil {
		return Retry{}, nil, err
	}
	if r.RetryOn == nil && !r.Disabled { // no retry at all in the step
		r = taskerRetry()
	}
	return r, warnings, nil
}

// taskerRetry is what Tasker does where nothing is said: retryable, 3 attempts.
func taskerRetry() Retry {
	return Retry{MaxAttempts: 3, Backoff: core.Exponential, Jitter: core.NoJitter, RetryOn: anyError(), CapRetryAfter: true, LossesCount: true}
}

func (v value) tasker() Retry {
	r, retryable, counted := taskerRetry(), true, false
	v.fields("a mapping, such as {retryable: true, max_attempts: 3}", map[string]func(value){
		"retryable": func(v value) { retryable = v.bool("true or false") },
		"max_attempts": func(v value) {
			counted = true
			r.MaxAttempts = int(v.integer(0, math.MaxInt32, "0 to 2147483647, the first included"))
			if r.MaxAttempts == 0 && v.node.Value == "0" {
				v.warn("0 attempts are probably a mistake; the first is never withheld, so that this is 1")
			}
		},
		"backoff":         func(v value) { v.oneOf([]string{"exponential"}) },
		"backoff_base_ms": func(v value) { r.InitialDelay = orNone(v.milliseconds()) },
		"max_backoff_ms":  func(v value) { r.MaxDelay = orNone(v.milliseconds()) },
	})
	if !retryable && counted && r.MaxAttempts > 1 {
		v.warn("retryable is false, so that max_attempts of %d have no effect: there is one attempt", r.MaxAttempts)
	}
	r.capRetryAfter()
	if !retryable || r.MaxAttempts <= 1 {
		return Retry{Disabled: true, LossesCount: true}
	}
	return r
}

// TaskerEligible reports whether Tasker makes another attempt of a step that was
// claimed that many times: the first always, every other only if the step is
// retryable and attempts are left. An attempt counts when it is claimed, so a
// crash counts.
func TaskerEligible(attempts, maxAttempts int, retryable bool) bool {
	return attempts == 0 || retryable && attempts < maxAttempts
}
