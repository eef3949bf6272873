package state

import (
	"strconv"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
)

// RetryLevel converts a configuration to the form in which it is stored with a run and shown. The
// result contains the defaults, and the names of the configuration's functions instead of the
// functions themselves. The error is the one that [core.RetryConfig.Validate] returns.
func RetryLevel(c core.RetryConfig) (snapshot.RetryLevel, error) {
	c, err := c.WithDefaults()
	if err != nil {
		return snapshot.RetryLevel{}, err
	}
	level := snapshot.RetryLevel{
		MaxAttempts: c.MaxAttempts, Backoff: c.Backoff.String(),
		InitialDelay: max(c.InitialDelay, 0), // NoDelay is negative
		MaxDelay:     c.MaxDelay, Multiplier: c.Multiplier, Jitter: textOfJitter(c.Jitter),
		AttemptTimeout: c.AttemptTimeout, RetryTimeout: c.RetryTimeout, MaxRetryAfter: c.MaxRetryAfter, CapRetryAfter: c.CapRetryAfter,
		MaxLosses: c.MaxLosses, LossesCount: c.LossesCount,
	}
	for _, field := range []struct {
		name string
		set  bool
	}{{"RetryOn", c.RetryOn != nil}, {"Exclude", c.Exclude != nil}, {"RetryWhen", c.RetryWhen != nil}, {"StopWhen", c.StopWhen != nil}} {
		if field.set {
			level.Functions = append(level.Functions, field.name)
		}
	}
	return level, nil
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
