package config

import (
	"math"
	"strings"
	"time"

	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
)

// ReadNoETL reads the retry configuration of a step of a NoETL playbook, as YAML or JSON. The key
// retry is true, false, a number of attempts, or a mapping. Without this key, there are no retries.
// Other keys of the step are ignored. Permanent errors are not retried. Other errors are retried if
// they match retry_when or if retry_when is missing; stop_when takes precedence. A successful
// attempt is never retried. Delays requested by Retry-After are limited to max_delay. A whole
// playbook or a list of steps is an error. If the step is invalid, the error is an *[Error].
func ReadNoETL(step []byte) (r Retry, warnings []Problem, err error) {
	r.MaxAttempts = 1
	warnings, err = readStep(step, func(v value) {
		v.step("NoETL", "retry", map[string]func(value){"retry": func(v value) { r = v.noetl() }})
	})
	if err != nil {
		return Retry{}, nil, err
	}
	return r, warnings, nil
}

func (v value) noetl() Retry {
	r := Retry{MaxAttempts: 3, Backoff: core.Exponential, InitialDelay: time.Second, Multiplier: 2, MaxDelay: time.Minute, RetryOn: anyError()}
	r.capRetryAfter()
	switch {
	case v.isBool():
		if !v.bool(wantRetry) {
			return Retry{MaxAttempts: 1}
		}
		return r
	case v.isNumber():
		r.MaxAttempts = int(v.integer(1, math.MaxInt32, wantNoETLAttempts))
		return r
	}
	v.fields(wantRetry, map[string]func(value){
		"max_attempts":       func(v value) { r.MaxAttempts = int(v.integer(1, math.MaxInt32, wantNoETLAttempts)) },
		"initial_delay":      func(v value) { r.InitialDelay = v.seconds() },
		"max_delay":          func(v value) { r.MaxDelay = v.seconds() },
		"backoff_multiplier": func(v value) { r.Multiplier = v.number(1, maxMultiplier, "a number from 1 to 1000000") },
		"jitter": func(v value) {
			if !v.bool("true or false") {
				r.Jitter = core.NoJitter
			}
		},
		"retry_when": func(v value) {
			if c := v.condition(); c != nil {
				r.RetryOn, r.RetryWhen = nil, v.ofFailures(c)
			}
		},
		"stop_when": func(v value) { r.StopWhen = v.condition() },
	})
	r.capRetryAfter() // again, now with the step's max_delay
	return r
}

const wantNoETLAttempts = "1 to 2147483647, including the first"

// seconds returns a duration given in seconds. It returns core.NoDelay for 0.
func (v value) seconds() time.Duration {
	const want = "a number of seconds, 0 to 315360000"
	return orNoDelay(time.Duration(math.Round(v.number(0, maxDuration.Seconds(), want) * float64(time.Second))))
}

// ofFailures restricts a condition to failed attempts. NoETL evaluates retry_when only for
// failures, whereas Reprise evaluates it for successes, too.
func (v value) ofFailures(c *condition.Condition) *condition.Condition {
	text := strings.TrimSpace(c.String())
	if inside, ok := strings.CutPrefix(text, "{{"); ok {
		text = strings.TrimSuffix(inside, "}}")
	}
	both, err := condition.Compile("error != None and (" + text + ")")
	if err != nil {
		v.fail("the condition is too long or too deeply nested: %v", err)
	}
	return both
}
