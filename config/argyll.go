package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"

	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
)

// ArgyllVersion is a version of Argyll's documentation of retries. The versions disagree about what
// a max_retries of 0 means.
type ArgyllVersion int

// The versions of Argyll's documentation.
const (
	// ArgyllV1 uses the key backoff, and a max_retries of 0 disables retries.
	ArgyllV1 ArgyllVersion = 1
	// ArgyllV2 uses the key init_backoff, and values of 0 or "" mean the global default.
	ArgyllV2 ArgyllVersion = 2
)

// ArgyllDefaults holds the global defaults of an Argyll engine. A nil field means that the default
// is unknown: Reprise uses its own default instead, and returns a warning if it matters.
type ArgyllDefaults struct {
	MaxRetries  *int // -1 for no limit, 0 for no retries
	Backoff     *time.Duration
	MaxBackoff  *time.Duration
	BackoffType *core.Backoff
}

var argyllBackoffs = []string{"fixed", "linear", "exponential"}

const (
	wantRetries      = "-1 for no limit, or 0 to 2147483646"
	wantMilliseconds = "a number of milliseconds, 0 to 315360000000"
)

// ArgyllEnvironment reads the defaults of an engine from its environment variables:
// RETRY_MAX_RETRIES, RETRY_BACKOFF and RETRY_MAX_BACKOFF in milliseconds, and
// RETRY_BACKOFF_TYPE. Pass [os.Getenv] as getenv. Empty variables are ignored. If a
// value is invalid, the error is an *[Error].
func ArgyllEnvironment(getenv func(string) string) (ArgyllDefaults, error) {
	var d ArgyllDefaults
	var problems []Problem
	number := func(name string, least, most int64, want string, set func(int64)) {
		text := getenv(name)
		if text == "" {
			return
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least || n > most {
			problems = append(problems, Problem{Key: name, Text: fmt.Sprintf("got %q, want %s", truncate(text), want)})
			return
		}
		set(n)
	}
	number("RETRY_MAX_RETRIES", -1, math.MaxInt32-1, wantRetries, func(n int64) { d.MaxRetries = new(int); *d.MaxRetries = int(n) })
	for name, to := range map[string]**time.Duration{"RETRY_BACKOFF": &d.Backoff, "RETRY_MAX_BACKOFF": &d.MaxBackoff} {
		number(name, 0, maxDuration.Milliseconds(), wantMilliseconds, func(n int64) {
			v := time.Duration(n) * time.Millisecond
			*to = &v
		})
	}
	if text := getenv("RETRY_BACKOFF_TYPE"); text != "" {
		if i := slices.Index(argyllBackoffs, text); i >= 0 {
			b := argyllBackoff(i)
			d.BackoffType = &b
		} else {
			problems = append(problems, Problem{Key: "RETRY_BACKOFF_TYPE", Text: fmt.Sprintf("got %q, want one of %s", truncate(text), strings.Join(argyllBackoffs, ", "))})
		}
	}
	if len(problems) > 0 {
		slices.SortFunc(problems, func(a, b Problem) int { return strings.Compare(a.Key, b.Key) })
		return ArgyllDefaults{}, &Error{problems}
	}
	return d, nil
}

// argyllBackoff returns the strategy named argyllBackoffs[i], or 0 for -1.
func argyllBackoff(i int) core.Backoff {
	return []core.Backoff{0, core.Constant, core.Linear, core.Exponential}[i+1]
}

// ReadArgyll reads the retry configuration of an Argyll step, as YAML or JSON. It reads the key
// work_config and the key http.timeout (in milliseconds), and ignores other keys.
//
// The result behaves as Argyll does. Network errors, HTTP 5xx responses and rejections by a circuit
// breaker are retried; all other errors are permanent. If max_retries is n, there are n+1 attempts.
// There is no jitter. Delays requested by Retry-After are limited to max_backoff.
//
// A list of steps is an error. Warnings describe settings that Argyll's documentation does not
// define or that Reprise does not support. If the step is invalid, the error is an *[Error].
func ReadArgyll(step []byte, version ArgyllVersion, defaults ArgyllDefaults) (r Retry, warnings []Problem, err error) {
	if version != ArgyllV1 && version != ArgyllV2 {
		return Retry{}, nil, fmt.Errorf("config: ReadArgyll: got version %d, want ArgyllV1 or ArgyllV2", version)
	}
	a := argyll{version: version, defaults: defaults}
	warnings, err = readStep(step, func(v value) { r = a.step(v) })
	if err != nil {
		return Retry{}, nil, err
	}
	return r, warnings, nil
}

// argyll holds the state while a step is being read.
type argyll struct {
	version  ArgyllVersion
	defaults ArgyllDefaults

	configured             bool // the step has a work_config
	retries                *int
	backoff, maxBackoff    time.Duration
	hasBackoff, hasMaximum bool
	backoffType            core.Backoff
	attemptTimeout         time.Duration
}

func (a *argyll) step(v value) Retry {
	v.step("Argyll", "work_config", map[string]func(value){
		"work_config": func(v value) { a.configured = true; a.workConfig(v) },
		"http": func(v value) {
			v.knownFields("a mapping", map[string]func(value){"timeout": func(v value) { a.attemptTimeout = v.milliseconds() }})
		},
		"compensate": func(v value) {
			v.warn("Argyll calls this endpoint to compensate the step; Reprise does not call it automatically")
		},
	})
	return a.retry(v)
}

func (a *argyll) workConfig(v value) {
	first, other := "backoff", "init_backoff"
	if a.version == ArgyllV2 {
		first, other = other, first
	}
	v.fields("a mapping, such as {max_retries: 3}", map[string]func(value){
		"max_retries": func(v value) {
			n := int(v.integer(-1, math.MaxInt32-1, wantRetries))
			a.retries = &n
		},
		first:         func(v value) { a.backoff, a.hasBackoff = v.milliseconds(), true },
		"max_backoff": func(v value) { a.maxBackoff, a.hasMaximum = v.milliseconds(), true },
		"backoff_type": func(v value) {
			if a.version == ArgyllV2 && v.isText() && v.node.Value == "" {
				return
			}
			a.backoffType = argyllBackoff(v.oneOf(argyllBackoffs))
		},
		other: func(v value) { v.fail("in version %d of Argyll the key is %q", a.version, first) },
	})
	if a.version == ArgyllV2 { // 0 means the global default
		a.hasBackoff, a.hasMaximum = a.backoff > 0, a.maxBackoff > 0
		if a.retries != nil && *a.retries == 0 {
			a.retries = nil
		}
	} else if a.retries == nil {
		a.retries = new(int)
	}
}

// retry returns the configuration, with missing values filled in from the defaults.
func (a *argyll) retry(v value) Retry {
	r := Retry{Jitter: core.NoJitter, AttemptTimeout: a.attemptTimeout, LossesCount: true}
	retries := a.retries
	if retries == nil {
		retries = orDefault(v, a.defaults.MaxRetries, "max_retries", "RETRY_MAX_RETRIES", "3 attempts")
	}
	switch {
	case retries == nil:
	case *retries == 0:
		r.MaxAttempts = 1
		return r
	case *retries < 0:
		r.MaxAttempts = core.Unlimited
	default:
		r.MaxAttempts = *retries + 1
	}
	r.RetryOn = []record.Class{record.ClassTimeout, record.ClassConnection, record.ClassEOF, record.ClassNetwork, record.ClassServer, record.ClassBreaker}
	r.StopWhen = clientErrors() // some of them, such as 408, also belong to one of these classes
	a.delays(v, &r)
	return r
}

func (a *argyll) delays(v value, r *Retry) {
	if a.configured && a.version == ArgyllV1 && (!a.hasBackoff || !a.hasMaximum || a.backoffType == 0) {
		v.warn("version 1 of Argyll does not define missing keys of a work_config; the global default is used")
	}
	backoff, most, kind := &a.backoff, &a.maxBackoff, &a.backoffType
	if !a.hasBackoff {
		backoff = orDefault(v, a.defaults.Backoff, "the backoff", "RETRY_BACKOFF", "1s")
	}
	if !a.hasMaximum {
		most = orDefault(v, a.defaults.MaxBackoff, "max_backoff", "RETRY_MAX_BACKOFF", "60s")
	}
	if a.backoffType == 0 {
		kind = orDefault(v, a.defaults.BackoffType, "backoff_type", "RETRY_BACKOFF_TYPE", "exponential")
	}
	if kind != nil {
		r.Backoff = *kind
	}
	if backoff != nil {
		r.InitialDelay = orNoDelay(*backoff)
	}
	if most != nil {
		r.MaxDelay = orNoDelay(*most)
	}
	r.capRetryAfter()
}

// orNoDelay returns d, or core.NoDelay if d is 0, because 0 would select the default.
func orNoDelay(d time.Duration) time.Duration {
	if d == 0 {
		return core.NoDelay
	}
	return d
}

// orDefault returns the global default of a field. It adds a warning if the default is
// unknown.
func orDefault[T any](v value, known *T, field, variable, own string) *T {
	if known == nil {
		v.warn("%s is missing, and the engine's default (%s) is unknown; using the default of Reprise: %s", field, variable, own)
	}
	return known
}

// clientErrors matches the responses that Argyll treats as permanent failures.
var clientErrors = sync.OnceValue(func() *condition.Condition {
	c, err := condition.Compile("status_code >= 400 and status_code < 500")
	if err != nil {
		panic(err)
	}
	return c
})
