package core

import (
	"context"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// LookUp returns a copy that uses f to look up whether a call has taken effect, before the call
// fails or somebody is asked about it. This applies to calls in doubt (InDoubtFail, InDoubtAsk, and
// RetryConfig.LossesCount), and to calls whose last attempt has ended with an error, such as a
// timeout just after the effect. If a run is retried, f also looks up calls that failed in doubt,
// before they are made again. LookUp is for effects that store their outcome where they take place,
// such as in the database that they change, under the call's [IdempotencyKey]. f gets this key from
// its context. If f returns the output that the call has stored there, the call completes with this
// output, and the handler does not run again.
//
// If f returns false, the call must not have taken effect, and no attempt that is still running
// somewhere may take effect later: f must make sure of that, or wait for the attempt. The call then
// continues as it would without LookUp. If f returns an error, the run is interrupted, and f is
// called again when the run is resumed.
//
// LookUp panics for an agent, because an agent is never in doubt itself.
func (d *Definition[In, Out]) LookUp(f func(ctx context.Context, in In) (out Out, found bool, err error)) *Definition[In, Out] {
	d.mustHaveFunction("LookUp", f == nil)
	d.spec.mustSupportDoubt("LookUp")
	c := *d
	c.lookUp = f
	return &c
}

// LookUp completes the call with the output that the call has stored elsewhere, if there is one.
func (t *typedCall[In, Out]) LookUp(ctx context.Context) (found bool, r engine.Result) {
	f := t.definition.lookUp
	if f == nil {
		return false, engine.Result{}
	}
	r.Stage = record.StageHandler
	defer r.RecoverPanic()
	if t.out, found, r.Err = f(ctx, t.in); r.Err != nil || !found {
		t.Clear()
		return false, r
	}
	return true, t.ensure(ctx, &t.out)
}
