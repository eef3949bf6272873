package engine

import (
	"cmp"

	"github.com/reprise-go/reprise/record"
)

// defaultMaxLosses is how often in a row an attempt may be lost. After that, the
// attempt is assumed to end the process.
const defaultMaxLosses = 5

// next returns what the call does next.
func (c *Call) next(p *record.Progress) Step { return Next(p, c.rules()) }

// rules returns the rules that, together with the call's records, determine what the call does
// next.
func (c *Call) rules() Rules {
	policy, settings := c.policy, c.root.settings
	return Rules{
		Kind: c.spec.Kind, MaxAttempts: policy.MaxAttempts, LossesCount: policy.LossesCount,
		MaxLosses: cmp.Or(policy.MaxLosses, settings.MaxLosses, defaultMaxLosses),
		InDoubt:   c.spec.InDoubt,
		Strict:    settings.Strict, Replays: settings.Replays,
	}
}
