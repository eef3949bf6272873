package config

import (
	"math"

	"github.com/reprise-go/reprise/core"
)

// ReadTasker reads the retry configuration of a Tasker step, as YAML or JSON. It reads the key
// retry and ignores other keys.
//
// The resulting configuration behaves like Tasker's. All errors except permanent ones are retried.
// There is no jitter. max_attempts includes the first attempt, which is always made. Delays
// requested by Retry-After are limited to max_backoff_ms.
//
// A whole task or a list of steps is an error. Warnings describe settings that have a surprising
// effect. If the step is invalid, the error is an *[Error].
func ReadTasker(step []byte) (r Retry, warnings []Problem, err error) {
	r = taskerRetry()
	warnings, err = readStep(step, func(v value) {
		v.step("Tasker", "retry", map[string]func(value){"retry": func(v value) { r = v.tasker() }})
	})
	if err != nil {
		return Retry{}, nil, err
	}
	return r, warnings, nil
}

// taskerRetry returns Tasker's default configuration: the step is retryable, with 3 attempts.
func taskerRetry() Retry {
	return Retry{MaxAttempts: 3, Backoff: core.Exponential, Jitter: core.NoJitter, RetryOn: anyError(), CapRetryAfter: true, LossesCount: true}
}

func (v value) tasker() Retry {
	r, retryable, counted := taskerRetry(), true, false
	v.fields("a mapping, such as {retryable: true, max_attempts: 3}", map[string]func(value){
		"retryable": func(v value) { retryable = v.bool("true or false") },
		"max_attempts": func(v value) {
			counted = true
			r.MaxAttempts = int(v.integer(0, math.MaxInt32, "0 to 2147483647, including the first"))
			if r.MaxAttempts == 0 && v.node.Value == "0" {
				v.warn("0 attempts is probably a mistake; the first attempt always runs, so this means 1")
			}
		},
		"backoff":         func(v value) { v.oneOf([]string{"exponential"}) },
		"backoff_base_ms": func(v value) { r.InitialDelay = orNoDelay(v.milliseconds()) },
		"max_backoff_ms":  func(v value) { r.MaxDelay = orNoDelay(v.milliseconds()) },
	})
	if !retryable && counted && r.MaxAttempts > 1 {
		v.warn("retryable is false, so max_attempts of %d has no effect: there is one attempt", r.MaxAttempts)
	}
	r.capRetryAfter()
	if !retryable || r.MaxAttempts <= 1 {
		return Retry{MaxAttempts: 1, LossesCount: true}
	}
	return r
}

// TaskerEligible reports whether Tasker would attempt a step that has already been claimed the
// given number of times. The first attempt is always made. Further attempts are made only if the
// step is retryable and attempts are left. An attempt counts as soon as the step is claimed, so an
// attempt that crashes counts, too.
func TaskerEligible(attempts, maxAttempts int, retryable bool) bool {
	return attempts == 0 || retryable && attempts < maxAttempts
}
