package core

import (
	"cmp"

	"github.com/reprise-go/reprise/internal/engine"
)

// ErrNotRecorded is found in the error of a call that has no recorded outcome
// and that a strict replay would have to execute.
var ErrNotRecorded = engine.ErrNotRecorded

// ErrNotStored is found in the error of a call that completed and whose actor
// is marked NoStore. A strict replay does not execute such a call, so it cannot
// prove what the call returned.
var ErrNotStored = engine.ErrNotStored

// defaultMaxLosses is how often in a row an attempt may be lost. After that, it is
// assumed to end its process.
const defaultMaxLosses = 5

// rules returns what decides, beside its records, what the call does next.
func (c *call) rules() engine.Rules {
	config, settings := &c.policy.config, c.root.settings
	return engine.Rules{
		Kind: c.spec.Kind, MaxAttempts: config.MaxAttempts, LossesCount: config.LossesCount,
		MaxLosses:   cmp.Or(config.MaxLosses, settings.MaxLosses, defaultMaxLosses),
		AsksInDoubt: c.spec.InDoubt == InDoubtAsk, FailsInDoubt: c.spec.InDoubt == InDoubtFail,
		Strict: settings.Strict, Replays: settings.Replays,
	}
}
