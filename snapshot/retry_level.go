package snapshot

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
)

// RetryLevels holds the retry configuration that a run had when it was last opened, by level. It is
// only for display: a resumed run uses the configuration of its program. The key "all" is for the
// configuration of all calls. The keys "tool_call", "llm_call" and "agent_call" are for calls of one
// kind, and "actor:" followed by a name is for calls of one actor. RetryLevels is stored as JSON.
type RetryLevels map[string]RetryLevel

const (
	// RetryOfAll is the key for all calls.
	RetryOfAll = "all"
	// RetryOfActor is the prefix of an actor's key. The actor's name follows it.
	RetryOfActor = "actor:"
)

// A RetryLevel is a core.RetryConfig with its defaults filled in and without its
// functions.
type RetryLevel struct {
	MaxAttempts    int           `json:"max_attempts"` // negative means no limit
	Backoff        string        `json:"backoff"`      // such as "exponential"
	InitialDelay   time.Duration `json:"initial_delay"`
	MaxDelay       time.Duration `json:"max_delay"`
	Multiplier     float64       `json:"multiplier"`
	Jitter         string        `json:"jitter"` // a fraction such as "0.25", or none, full or decorrelated
	AttemptTimeout time.Duration `json:"attempt_timeout"`
	RetryTimeout   time.Duration `json:"retry_timeout"`
	MaxRetryAfter  time.Duration `json:"max_retry_after"`
	CapRetryAfter  bool          `json:"cap_retry_after"`
	MaxLosses      int           `json:"max_losses"` // negative means no limit; 0 means that the run's limit applies
	LossesCount    bool          `json:"losses_count"`

	// Functions holds the names of the fields that are set to functions, such as RetryWhen.
	Functions []string `json:"functions,omitempty"`
}

// Clone returns a deep copy of l.
func (l RetryLevels) Clone() RetryLevels {
	c := maps.Clone(l)
	for key, level := range c {
		level.Functions = slices.Clone(level.Functions)
		c[key] = level
	}
	return c
}

// write writes the levels as JSON. It writes nil if there are none.
func (l RetryLevels) write(w *codec.Writer) {
	if len(l) == 0 {
		w.Nil()
		return
	}
	data, err := json.Marshal(l)
	if err != nil {
		w.Nil() // a multiplier is not a number; losing the levels does no harm, since they are only for display
		return
	}
	w.Bytes(data)
}

func readRetryLevels(in *codec.Reader) (levels RetryLevels) {
	begin := in.Offset()
	data := in.View()
	if len(data) == 0 {
		return nil
	}
	if err := json.Unmarshal(data, &levels); err != nil {
		in.Fail(begin, fmt.Errorf("retry levels: %w", err))
	}
	return levels
}

// levelJSON is a RetryLevel as it appears in a document of package config, with Functions added.
type levelJSON struct {
	MaxAttempts    any      `json:"max_attempts,omitempty"`
	Backoff        string   `json:"backoff,omitempty"`
	InitialDelay   float64  `json:"initial_delay"`
	MaxDelay       float64  `json:"max_delay,omitempty"`
	Multiplier     float64  `json:"multiplier,omitempty"`
	Jitter         any      `json:"jitter,omitempty"`
	AttemptTimeout float64  `json:"attempt_timeout,omitempty"`
	RetryTimeout   float64  `json:"retry_timeout,omitempty"`
	MaxRetryAfter  float64  `json:"max_retry_after,omitempty"`
	CapRetryAfter  bool     `json:"cap_retry_after,omitempty"`
	MaxLosses      any      `json:"max_losses,omitempty"`
	LossesCount    bool     `json:"losses_count,omitempty"`
	Functions      []string `json:"functions,omitempty"`
}

const unlimited = "unlimited"

// MarshalJSON encodes l as it appears in a document of package config, with durations in seconds.
// Package config can read the result if l has no Functions.
func (l RetryLevel) MarshalJSON() ([]byte, error) {
	out := levelJSON{
		Backoff: l.Backoff, InitialDelay: l.InitialDelay.Seconds(), MaxDelay: l.MaxDelay.Seconds(), Multiplier: l.Multiplier,
		AttemptTimeout: l.AttemptTimeout.Seconds(), RetryTimeout: l.RetryTimeout.Seconds(), MaxRetryAfter: l.MaxRetryAfter.Seconds(), CapRetryAfter: l.CapRetryAfter,
		MaxAttempts: limitJSON(l.MaxAttempts), MaxLosses: limitJSON(l.MaxLosses), LossesCount: l.LossesCount, Functions: l.Functions,
	}
	if _, err := strconv.ParseFloat(l.Jitter, 64); err == nil {
		out.Jitter = json.Number(l.Jitter)
	} else if l.Jitter != "" {
		out.Jitter = l.Jitter
	}
	return json.Marshal(out)
}

// limitJSON returns the JSON form of a limit: nil for 0, and "unlimited" for a negative number.
func limitJSON(n int) any {
	switch {
	case n == 0:
		return nil
	case n < 0:
		return unlimited
	}
	return n
}

// readLimit is the inverse of limitJSON, for a value that was decoded from JSON.
func readLimit(key string, in any) (int, error) {
	switch n := in.(type) {
	case nil:
		return 0, nil
	case float64:
		return int(n), nil
	}
	if in != unlimited {
		return 0, fmt.Errorf("snapshot: %s: got %v, want a number or %q", key, in, unlimited)
	}
	return -1, nil
}

// UnmarshalJSON decodes the result of MarshalJSON.
func (l *RetryLevel) UnmarshalJSON(data []byte) (err error) {
	var in levelJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	seconds := func(s float64) time.Duration { return time.Duration(math.Round(s * float64(time.Second))) }
	*l = RetryLevel{
		Backoff: in.Backoff, InitialDelay: seconds(in.InitialDelay), MaxDelay: seconds(in.MaxDelay), Multiplier: in.Multiplier,
		AttemptTimeout: seconds(in.AttemptTimeout), RetryTimeout: seconds(in.RetryTimeout), MaxRetryAfter: seconds(in.MaxRetryAfter), CapRetryAfter: in.CapRetryAfter,
		LossesCount: in.LossesCount, Functions: in.Functions,
	}
	if l.MaxAttempts, err = readLimit("max_attempts", in.MaxAttempts); err != nil {
		return err
	}
	if l.MaxLosses, err = readLimit("max_losses", in.MaxLosses); err != nil {
		return err
	}
	switch j := in.Jitter.(type) {
	case nil:
	case float64:
		l.Jitter = strconv.FormatFloat(j, 'g', -1, 64)
	default:
		if j != "none" && j != "full" && j != "decorrelated" {
			return fmt.Errorf("snapshot: jitter: got %v, want a fraction, none, full or decorrelated", j)
		}
		l.Jitter = j.(string)
	}
	return nil
}

// String returns a string such as "3 attempts, exponential ×2 from 1s to 1m0s, jitter 0.25".
func (l RetryLevel) String() string {
	parts := []string{fmt.Sprint(l.MaxAttempts, " attempts")}
	switch {
	case l.MaxAttempts == 1:
		parts = []string{"1 attempt"}
	case l.MaxAttempts < 0:
		parts = []string{"unlimited attempts"}
	}
	if l.MaxAttempts != 1 {
		growth := l.Backoff
		if l.Backoff == "exponential" {
			growth += fmt.Sprint(" ×", l.Multiplier)
		}
		parts = append(parts, fmt.Sprintf("%s from %v to %v", growth, l.InitialDelay, l.MaxDelay), "jitter "+l.Jitter)
		if l.CapRetryAfter {
			parts = append(parts, fmt.Sprintf("Retry-After cut to %v", l.MaxRetryAfter))
		} else {
			parts = append(parts, fmt.Sprintf("Retry-After up to %v", l.MaxRetryAfter))
		}
	}
	switch {
	case l.LossesCount:
		parts = append(parts, "losses count")
	case l.MaxLosses < 0:
		parts = append(parts, "unlimited losses")
	case l.MaxLosses == 1:
		parts = append(parts, "1 loss")
	case l.MaxLosses > 1:
		parts = append(parts, fmt.Sprint(l.MaxLosses, " losses"))
	}
	if l.AttemptTimeout > 0 {
		parts = append(parts, fmt.Sprintf("%v per attempt", l.AttemptTimeout))
	}
	if l.RetryTimeout > 0 {
		parts = append(parts, fmt.Sprintf("%v in total", l.RetryTimeout))
	}
	if len(l.Functions) > 0 {
		parts = append(parts, "with "+strings.Join(l.Functions, " and "))
	}
	return strings.Join(parts, ", ")
}

// Equal reports whether l and other are equal.
func (l RetryLevels) Equal(other RetryLevels) bool { return maps.EqualFunc(l, other, RetryLevel.equal) }

func (l RetryLevel) equal(other RetryLevel) bool {
	functions := slices.Equal(l.Functions, other.Functions)
	l.Functions, other.Functions = nil, nil
	return functions && reflect.DeepEqual(l, other)
}
