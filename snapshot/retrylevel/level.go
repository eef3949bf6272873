package retrylevel

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/reprise-go/reprise/core"
)

// Levels are the levels of retry configuration that a run had when it was opened
// last: under "all" that of all calls, under "tool_call", "llm_call" and
// "agent_call" those of the kinds, under "actor:" and a name those of actors.
type Levels map[string]Level

const (
	// All is the key of the level of all calls.
	All = "all"
	// ActorPrefix stands before the name of an actor in the key of its level.
	ActorPrefix = "actor:"
)

// Level is a core.RetryConfig with its defaults filled in and without its
// functions.
type Level struct {
	Disabled       bool          `json:"disabled"`
	MaxAttempts    int           `json:"max_attempts"` // core.Unlimited for no end
	Backoff        string        `json:"backoff"`      // such as "exponential"
	InitialDelay   time.Duration `json:"initial_delay"`
	MaxDelay       time.Duration `json:"max_delay"`
	Multiplier     float64       `json:"multiplier"`
	Jitter         float64       `json:"jitter"` // a fraction, or one of core.NoJitter, core.FullJitter and core.DecorrelatedJitter
	AttemptTimeout time.Duration `json:"attempt_timeout"`
	RetryTimeout   time.Duration `json:"retry_timeout"`
	MaxRetryAfter  time.Duration `json:"max_retry_after"`

	// Functions names the fields that held functions: RetryOn, Exclude,
	// RetryWhen, StopWhen.
	Functions []string `json:"functions,omitempty"`
}

// Of returns the policy as a level.
func Of(p *core.Policy) Level {
	c := p.Config()
	level := Level{
		Disabled: c.Disabled, MaxAttempts: c.MaxAttempts, Backoff: c.Backoff.String(),
		InitialDelay: c.InitialDelay, MaxDelay: c.MaxDelay, Multiplier: c.Multiplier, Jitter: float64(c.Jitter),
		AttemptTimeout: c.AttemptTimeout, RetryTimeout: c.RetryTimeout, MaxRetryAfter: c.MaxRetryAfter,
	}
	for _, field := range []struct {
		name string
		set  bool
	}{{"RetryOn", c.RetryOn != nil}, {"Exclude", c.Exclude != nil}, {"RetryWhen", c.RetryWhen != nil}, {"StopWhen", c.StopWhen != nil}} {
		if field.set {
			level.Functions = append(level.Functions, field.name)
		}
	}
	return level
}

// Clone returns a copy that shares nothing with l.
func (l Levels) Clone() Levels {
	c := maps.Clone(l)
	for key, level := range c {
		level.Functions = slices.Clone(level.Functions)
		c[key] = level
	}
	return c
}

// levelJSON is a Level as documents of package config have it, with
// Functions beside it.
type levelJSON struct {
	Disabled       bool     `json:"disabled"`
	MaxAttempts    any      `json:"max_attempts,omitempty"`
	Backoff        string   `json:"backoff,omitempty"`
	InitialDelay   float64  `json:"initial_delay"`
	MaxDelay       float64  `json:"max_delay,omitempty"`
	Multiplier     float64  `json:"multiplier,omitempty"`
	Jitter         any      `json:"jitter,omitempty"`
	AttemptTimeout float64  `json:"attempt_timeout,omitempty"`
	RetryTimeout   float64  `json:"retry_timeout,omitempty"`
	MaxRetryAfter  float64  `json:"max_retry_after,omitempty"`
	Functions      []string `json:"functions,omitempty"`
}

const unlimited = "unlimited"

// jitterNames are the kinds of jitter that are not a fraction.
var jitterNames = map[core.Jitter]string{core.NoJitter: "none", core.FullJitter: "full", core.DecorrelatedJitter: "decorrelated"}

// MarshalJSON writes what documents of package config have, durations in
// seconds; they read it as it is where there are no Functions.
func (l Level) MarshalJSON() ([]byte, error) {
	out := levelJSON{
		Disabled: l.Disabled, Backoff: l.Backoff, InitialDelay: l.InitialDelay.Seconds(), MaxDelay: l.MaxDelay.Seconds(), Multiplier: l.Multiplier,
		AttemptTimeout: l.AttemptTimeout.Seconds(), RetryTimeout: l.RetryTimeout.Seconds(), MaxRetryAfter: l.MaxRetryAfter.Seconds(), Functions: l.Functions,
	}
	switch {
	case l.MaxAttempts == core.Unlimited:
		out.MaxAttempts = unlimited
	case l.MaxAttempts != 0:
		out.MaxAttempts = l.MaxAttempts
	}
	if name := jitterNames[core.Jitter(l.Jitter)]; name != "" {
		out.Jitter = name
	} else if l.Jitter != 0 {
		out.Jitter = l.Jitter
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (l *Level) UnmarshalJSON(data []byte) error {
	var in levelJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	seconds := func(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
	*l = Level{
		Disabled: in.Disabled, Backoff: in.Backoff, InitialDelay: seconds(in.InitialDelay), MaxDelay: seconds(in.MaxDelay), Multiplier: in.Multiplier,
		AttemptTimeout: seconds(in.AttemptTimeout), RetryTimeout: seconds(in.RetryTimeout), MaxRetryAfter: seconds(in.MaxRetryAfter), Functions: in.Functions,
	}
	switch n := in.MaxAttempts.(type) {
	case nil:
	case float64:
		l.MaxAttempts = int(n)
	default:
		if n != unlimited {
			return fmt.Errorf("retrylevel: max_attempts: got %v, want a number or %q", n, unlimited)
		}
		l.MaxAttempts = core.Unlimited
	}
	switch j := in.Jitter.(type) {
	case nil:
	case float64:
		l.Jitter = j
	default:
		for jitter, name := range jitterNames {
			if name == j {
				l.Jitter = float64(jitter)
				return nil
			}
		}
		return fmt.Errorf("retrylevel: jitter: got %v, want a fraction, none, full or decorrelated", j)
	}
	return nil
}

// String is a line such as
// "3 attempts, exponential ×2 from 1s to 1m0s, jitter 0.25".
func (l Level) String() string {
	parts := []string{fmt.Sprint(l.MaxAttempts, " attempts")}
	switch {
	case l.Disabled:
		parts = []string{"disabled"}
	case l.MaxAttempts == core.Unlimited:
		parts = []string{"attempts without end"}
	}
	if !l.Disabled {
		growth := l.Backoff
		if l.Backoff == core.Exponential.String() {
			growth += fmt.Sprint(" ×", l.Multiplier)
		}
		parts = append(parts, fmt.Sprintf("%s from %v to %v", growth, l.InitialDelay, l.MaxDelay), "jitter "+l.jitter(), fmt.Sprintf("Retry-After up to %v", l.MaxRetryAfter))
	}
	if l.AttemptTimeout > 0 {
		parts = append(parts, fmt.Sprintf("%v for an attempt", l.AttemptTimeout))
	}
	if l.RetryTimeout > 0 {
		parts = append(parts, fmt.Sprintf("%v for all", l.RetryTimeout))
	}
	if len(l.Functions) > 0 {
		parts = append(parts, "with "+strings.Join(l.Functions, " and "))
	}
	return strings.Join(parts, ", ")
}

func (l Level) jitter() string {
	if name := jitterNames[core.Jitter(l.Jitter)]; name != "" {
		return name
	}
	return fmt.Sprint(l.Jitter)
}

// Equal reports whether l and other have the same levels.
func (l Levels) Equal(other Levels) bool { return maps.EqualFunc(l, other, Level.equal) }

func (l Level) equal(other Level) bool {
	functions := slices.Equal(l.Functions, other.Functions)
	l.Functions, other.Functions = nil, nil
	return functions && reflect.DeepEqual(l, other)
}
