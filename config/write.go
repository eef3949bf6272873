package config

import (
	"encoding/json"
	"time"

	"github.com/reprise-go/reprise/record"

	"go.yaml.in/yaml/v4"

	"github.com/reprise-go/reprise/config/condition"
	"github.com/reprise-go/reprise/core"
)

// serializedRetry is the serialized form of a Retry.
type serializedRetry struct {
	MaxAttempts    any       `json:"max_attempts,omitempty" yaml:"max_attempts,omitempty"`
	Backoff        string    `json:"backoff,omitempty" yaml:"backoff,omitempty"`
	InitialDelay   string    `json:"initial_delay,omitempty" yaml:"initial_delay,omitempty"`
	MaxDelay       string    `json:"max_delay,omitempty" yaml:"max_delay,omitempty"`
	Multiplier     float64   `json:"multiplier,omitempty" yaml:"multiplier,omitempty"`
	Jitter         any       `json:"jitter,omitempty" yaml:"jitter,omitempty"`
	AttemptTimeout string    `json:"attempt_timeout,omitempty" yaml:"attempt_timeout,omitempty"`
	RetryTimeout   string    `json:"retry_timeout,omitempty" yaml:"retry_timeout,omitempty"`
	MaxRetryAfter  string    `json:"max_retry_after,omitempty" yaml:"max_retry_after,omitempty"`
	CapRetryAfter  bool      `json:"cap_retry_after,omitempty" yaml:"cap_retry_after,omitempty"`
	MaxLosses      any       `json:"max_losses,omitempty" yaml:"max_losses,omitempty"`
	LossesCount    bool      `json:"losses_count,omitempty" yaml:"losses_count,omitempty"`
	RetryOn        *[]string `json:"retry_on,omitempty" yaml:"retry_on,omitempty"`
	Exclude        *[]string `json:"exclude,omitempty" yaml:"exclude,omitempty"`
	RetryWhen      string    `json:"retry_when,omitempty" yaml:"retry_when,omitempty"`
	StopWhen       string    `json:"stop_when,omitempty" yaml:"stop_when,omitempty"`
}

func (r Retry) serialize() serializedRetry {
	w := serializedRetry{
		InitialDelay: durationText(r.InitialDelay), MaxDelay: durationText(r.MaxDelay), Multiplier: r.Multiplier,
		AttemptTimeout: durationText(r.AttemptTimeout), RetryTimeout: durationText(r.RetryTimeout), MaxRetryAfter: durationText(r.MaxRetryAfter), CapRetryAfter: r.CapRetryAfter, LossesCount: r.LossesCount,
		RetryOn: namesOf(r.RetryOn), Exclude: namesOf(r.Exclude), RetryWhen: conditionText(r.RetryWhen), StopWhen: conditionText(r.StopWhen),
	}
	w.MaxAttempts, w.MaxLosses = limitText(r.MaxAttempts), limitText(r.MaxLosses)
	if r.Backoff != 0 {
		w.Backoff = r.Backoff.String()
	}
	switch r.Jitter {
	case 0:
	case core.NoJitter:
		w.Jitter = "none"
	case core.FullJitter:
		w.Jitter = "full"
	case core.DecorrelatedJitter:
		w.Jitter = "decorrelated"
	default:
		w.Jitter = float64(r.Jitter)
	}
	return w
}

// MarshalJSON returns the configuration in the form that documents use.
func (r Retry) MarshalJSON() ([]byte, error) { return json.Marshal(r.serialize()) }

// MarshalYAML returns the configuration in the form that documents use.
func (r Retry) MarshalYAML() (any, error) { return r.serialize(), nil }

// byName returns the parts of a document by key.
func (d Document) byName() map[string]any {
	parts := make(map[string]any)
	if d.All != nil {
		parts["all"] = d.All.serialize()
	}
	for kind, r := range d.Kinds {
		parts[kind.String()] = r.serialize()
	}
	if d.Actors != nil {
		actors := make(map[string]serializedRetry)
		for name, r := range d.Actors {
			actors[name] = r.serialize()
		}
		parts["actors"] = actors
	}
	return parts
}

// MarshalJSON returns a document that [Parse] can read.
func (d Document) MarshalJSON() ([]byte, error) { return json.Marshal(d.byName()) }

// MarshalYAML returns a document that [Parse] can read.
func (d Document) MarshalYAML() (any, error) { return d.byName(), nil }

// YAML returns the document as YAML.
func (d Document) YAML() ([]byte, error) { return yaml.Dump(d.byName()) }

// durationText formats a duration. It returns "" for the default.
func durationText(d time.Duration) string {
	switch d {
	case 0:
		return ""
	case core.NoDelay:
		return "0s"
	}
	return d.String()
}

func namesOf(classes []record.Class) *[]string {
	if classes == nil {
		return nil
	}
	names := make([]string, len(classes))
	for i, c := range classes {
		names[i] = c.String()
	}
	return &names
}

func conditionText(c *condition.Condition) string {
	if c == nil {
		return ""
	}
	return c.String()
}

// limitText returns the serialized form of a limit that may be core.Unlimited. It
// returns nil for the default.
func limitText(n int) any {
	switch n {
	case 0:
		return nil
	case core.Unlimited:
		return unlimited
	}
	return n
}
