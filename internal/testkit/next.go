package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// requireNext checks that a started record is the step that follows from the call's earlier
// records, no matter which process appended the record. Since the rules of the actor are not
// recorded, requireNext accepts a record that fits any of the possible rules.
func requireNext(t testing.TB, before *record.Ledger, r *record.Record) {
	t.Helper()
	if !r.Kind.IsCall() || r.Status != record.StatusStarted {
		return
	}
	var p record.Progress
	if call := before.Call(r.Address); call != nil {
		p = call.Progress
		if call.Closed && p.Phase == record.StateRunning { // the attempt was stopped, not lost
			p.Phase = record.StateStopped
		}
	}
	if p.HasOutcome() && (r.Reason == record.ReasonRetry || r.Reason == record.ReasonDivergence) {
		return // somebody requested the attempt
	}
	if p.Phase == record.StateCompleted && before.Counts().Compensations != (record.Stock{}) {
		return // the call may have been compensated, which is recorded at another address
	}
	rules := engine.Rules{Kind: r.Kind, MaxAttempts: r.MaxAttempts}
	for _, rules.LossesCount = range []bool{false, true} {
		for _, rules.InDoubt = range []engine.InDoubt{engine.InDoubtRetry, engine.InDoubtAsk} {
			step := engine.Next(&p, rules)
			if makes(step.Do) && step.Attempt == int32(r.Attempt) {
				return
			}
		}
	}
	require.FailNow(t, "a call began differently than its records require", "%s, with the progress %+v", line(r), p)
}

// makes reports whether an attempt may follow the step.
func makes(a engine.Action) bool {
	return a == engine.Begin || a == engine.Make || a == engine.Ask
}
