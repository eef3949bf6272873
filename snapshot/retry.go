package snapshot

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
	"github.com/reprise-go/reprise/internal/codec"
)

// RetryLevels are the levels of retry configuration that a run had when it was
// opened last: under "all" that of all calls, under "tool_call", "llm_call" and
// "agent_call" those of the kinds, under "actor:" and a name those of actors.
// They are for people: a run that is resumed
// goes on with those of its program.
type RetryLevels map[string]RetryLevel

const (
	// AllCalls is the key of the level of all calls.
	AllCalls = "all"
	// ActorPrefix stands before the name of an actor in the key of its level.
	ActorPrefix = "actor:"
)

// RetryLevel is a core.RetryConfig with its defaults filled in and without its
// functions.
type RetryLevel struct {
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

// RetryLevelOf is the level that the policy is.
func RetryLevelOf(p *core.Policy) RetryLevel {
	c := p.Config()
	level := RetryLevel{
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
func (l RetryLevels) Clone() RetryLevels {
	c := maps.Clone(l)
	for key, level := range c {
		level.Functions = slices.Clone(level.Functions)
		c[key] = level
	}
	return c
}

// retryLevelJSON is a RetryLevel as documents of package config have it, with
// Functions beside it.
type retryLevelJSON struct {
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

// jitterNames are the kinds of jitter that are no fraction.
var jitterNames = map[core.Jitter]string{core.NoJitter: "none", core.FullJitter: "full", core.DecorrelatedJitter: "decorrelated"}

// MarshalJSON writes what documents of package config have, durations in
// seconds; they read it as it is where there are no Functions.
func (l RetryLevel) MarshalJSON() ([]byte, error) {
	out := retryLevelJSON{
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
func (l *RetryLevel) UnmarshalJSON(data []byte) error {
	var in retryLevelJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	seconds := func(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
	*l = RetryLevel{
		Disabled: in.Disabled, Backoff: in.Backoff, InitialDelay: seconds(in.InitialDelay), MaxDelay: seconds(in.MaxDelay), Multiplier: in.Multiplier,
		AttemptTimeout: seconds(in.AttemptTimeout), RetryTimeout: seconds(in.RetryTimeout), MaxRetryAfter: seconds(in.MaxRetryAfter), Functions: in.Functions,
	}
	switch n := in.MaxAttempts.(type) {
	case nil:
	case float64:
		l.MaxAttempts = int(n)
	default:
		if n != unlimited {
			return fmt.Errorf("snapshot: max_attempts: got %v, want a number or %q", n, unlimited)
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
		return fmt.Errorf("snapshot: jitter: got %v, want a fraction, none, full or decorrelated", j)
	}
	return nil
}

// String is a line such as
// "3 attempts, exponential ×2 from 1s to 1m0s, jitter 0.25".
func (l RetryLevel) String() string {
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

func (l RetryLevel) jitter() string {
	switch core.Jitter(l.Jitter) {
	case core.NoJitter:
		return "none"
	case core.FullJitter:
		return "full"
	case core.DecorrelatedJitter:
		return "decorrelated"
	}
	return fmt.Sprint(l.Jitter)
}

func (l RetryLevel) equal(other RetryLevel) bool {
	functions := slices.Equal(l.Functions, other.Functions)
	l.Functions, other.Functions = nil, nil
	return functions && reflect.DeepEqual(l, other)
}

// retryFields is the number of pairs of a level.
const retryFields = 11

func writeRetryLevels(w *codec.Writer, levels RetryLevels) {
	w.Map(len(levels))
	for _, key := range slices.Sorted(maps.Keys(levels)) {
		l := levels[key]
		w.Text(key)
		w.Map(retryFields)
		w.Text("disabled")
		w.Bool(l.Disabled)
		w.Text("max_attempts")
		w.Int(int64(l.MaxAttempts))
		w.Text("backoff")
		w.Text(l.Backoff)
		w.Text("initial_delay")
		w.Int(int64(l.InitialDelay))
		w.Text("max_delay")
		w.Int(int64(l.MaxDelay))
		w.Text("multiplier")
		w.Float(l.Multiplier)
		w.Text("jitter")
		w.Float(l.Jitter)
		w.Text("attempt_timeout")
		w.Int(int64(l.AttemptTimeout))
		w.Text("retry_timeout")
		w.Int(int64(l.RetryTimeout))
		w.Text("max_retry_after")
		w.Int(int64(l.MaxRetryAfter))
		w.Text("functions")
		w.Array(len(l.Functions))
		for _, name := range l.Functions {
			w.Text(name)
		}
	}
}

func readRetryLevels(in *codec.Reader) RetryLevels {
	n := in.Map()
	if n == 0 {
		return nil
	}
	levels := make(RetryLevels)
	for ; n > 0 && in.Err() == nil; n-- {
		key := in.Text()
		levels[key] = readRetryLevel(in)
	}
	return levels
}

func readRetryLevel(in *codec.Reader) (l RetryLevel) {
	for key := range in.Pairs() {
		switch key {
		case "disabled":
			l.Disabled = in.Bool()
		case "max_attempts":
			l.MaxAttempts = int(in.Int())
		case "backoff":
			l.Backoff = in.Name()
		case "initial_delay":
			l.InitialDelay = time.Duration(in.Int())
		case "max_delay":
			l.MaxDelay = time.Duration(in.Int())
		case "multiplier":
			l.Multiplier = in.Float()
		case "jitter":
			l.Jitter = in.Float()
		case "attempt_timeout":
			l.AttemptTimeout = time.Duration(in.Int())
		case "retry_timeout":
			l.RetryTimeout = time.Duration(in.Int())
		case "max_retry_after":
			l.MaxRetryAfter = time.Duration(in.Int())
		case "functions":
			for n := in.Array(); n > 0 && in.Err() == nil; n-- {
				l.Functions = append(l.Functions, in.Name())
			}
		default:
			in.Skip()
		}
	}
	return l
}
