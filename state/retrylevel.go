package state

import (
	"strconv"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
)

// RetryLevel returns the policy in the form in which it is stored with a run and
// shown: with its defaults, and without its functions.
func RetryLevel(p *core.Policy) snapshot.RetryLevel {
	c := p.Config()
	level := snapshot.RetryLevel{
		Disabled: c.Disabled, MaxAttempts: c.MaxAttempts, Backoff: c.Backoff.String(),
		InitialDelay: c.InitialDelay, MaxDelay: c.MaxDelay, Multiplier: c.Multiplier, Jitter: textOfJitter(c.Jitter),
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

func textOfJitter(j core.Jitter) string {
	switch j {
	case core.NoJitter:
		return "none"
	case core.FullJitter:
		return "full"
	case core.DecorrelatedJitter:
		return "decorrelated"
	}
	return strconv.FormatFloat(float64(j), 'g', -1, 64)
}

// retryLevels returns the levels of the run as its store keeps them. It is not
// nil, even if there are none.
func (c *config) retryLevels() snapshot.RetryLevels {
	levels := make(snapshot.RetryLevels)
	if p := c.settings.Retry; p != nil {
		levels[snapshot.RetryOfAll] = RetryLevel(p)
	}
	for kind, p := range c.settings.RetryByKind {
		if p != nil {
			levels[record.Kind(kind).String()] = RetryLevel(p)
		}
	}
	for name, p := range c.settings.RetryByActor {
		levels[snapshot.RetryOfActor+name] = RetryLevel(p)
	}
	return levels
}
