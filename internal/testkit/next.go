package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// requireNext checks that a started record is what the records before it say that the
// call does next, whoever appended it and in whichever process. What is not on record,
// the rules of the actor, may be any.
func requireNext(t testing.TB, before *record.Ledger, r *record.Record) {
	t.Helper()
	if !r.Kind.IsCall() || r.Status != record.StatusStarted {
		return
	}
	var p record.Progress
	if call := before.Call(r.Address); call != nil {
		p = call.Progress
		if call.Closed && p.Phase == record.PhaseRunning { // it was stopped, and not lost
			p.Phase = record.PhaseStopped
		}
	}
	if p.HasOutcome() && (r.Reason == record.ReasonRetry || r.Reason == record.ReasonDivergence) {
		return // somebody asked for it
	}
	if p.Phase == record.PhaseSucceeded && before.Counts().Compensations != (record.Stock{}) {
		return // it may have been undone: that is on record for another call
	}
	rules := engine.Rules{Kind: r.Kind, MaxAttempts: r.MaxAttempts}
	for _, rules.LossesCount = range []bool{false, true} {
		for _, rules.AsksInDoubt = range []bool{false, true} {
			step := engine.Next(&p, rules)
			if makes(step.Do) && step.Attempt == int32(r.Attempt) {
				return
			}
		}
	}
	require.FailNow(t, "a call began otherwise than its records say", "%s, as its progress is %+v", line(r), p)
}

// makes reports whether an attempt may follow the step.
func makes(a engine.Action) bool {
	return a == engine.Begin || a == engine.Make || a == engine.Ask
}
