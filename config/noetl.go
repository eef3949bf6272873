package config

import (
	"math"
	"strings"
	"time"

	"github.com/reprise-go/reprise/condition"
	"github.com/reprise-go/reprise/core"
)

// ReadNoETL reads the retry configuration of a step of a NoETL playbook, as YAML
// or JSON: true, false, a number of attempts or a mapping at its key retry, and no
// retries if there is none. The other keys of a step are not looked at. Every
// failure but a permanent one is retried, or those of which retry_when is true;
// stop_when is asked first. Successes are never made another attempt of. What a
// service asks for by Retry-After is cut to max_delay. A whole playbook, or a
// list of steps, is an error.
func ReadNoETL(step []byte) (r Retry, warnings []Problem, err error) {
	r.Disabled = true
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
			return Retry{Disabled: true}
		}
		return r
	case v.isNumber():
		r.MaxAttempts = int(v.integer(1, math.MaxInt32, wantNoETLAttempts))
		return r
	}
	v.fields("true, false, a number of attempts, or a mapping such as {max_attempts: 5}", map[string]func(value){
		"max_attempts":       func(v value) { r.MaxAttempts = int(v.integer(1, math.MaxInt32, wantNoETLAttempts)) },
		"initial_delay":      func(v value) { r.InitialDelay = v.seconds() },
		"max_delay":          func(v value) { r.MaxDelay = v.seconds() },
		"backoff_multiplier": func(v value) { r.Multiplier = v.number(1, maxMultiplier, "a number of 1 to 1000000") },
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
	r.capRetryAfter() // to the max_delay that was read
	return r
}

const wantNoETLAttempts = "1 to 2147483647, the first included"

// seconds is a number of them, of which 0 is none.
func (v value) seconds() time.Duration {
	const want = "a number of seconds, 0 to 315360000"
	problems := len(v.r.problems)
	d := time.Duration(math.Round(v.number(0, maxDuration.Seconds(), want) * float64(time.Second)))
	if len(v.r.problems) > problems {
		return 0
	}
	return orNone(d)
}

// ofFailures is the condition of failures alone. Reprise asks retry_when about
// successes too, NoETL does not.
func (v value) ofFailures(c *condition.Condition) *condition.Condition {
	text := strings.TrimSpace(c.String())
	if inside, ok := strings.CutPrefix(text, "{{"); ok {
		text = strings.TrimSuffix(inside, "}}")
	}
	both, err := condition.Compile("error != None and (" + text + ")")
	if err != nil {
		v.fail("the condition is too long or too deep: %v", err)
	}
	return both
}
