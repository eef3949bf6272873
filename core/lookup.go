package core

import (
	"context"

	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/record"
)

// LookUp returns a copy in which f looks up calls that may have taken effect, before they fail or
// somebody is asked about them: calls in doubt (InDoubtFail, InDoubtAsk, and
// RetryConfig.LossesCount), and calls whose last attempt has ended with an error, such as a timeout
// just after the effect. If a run is retried, f looks up calls that failed in doubt, before they are
// made again. It is for effects that leave their outcome where they take place, such as
// in the database that they change, under the [IdempotencyKey] of the call, which f gets in its
// context. f returns the output that the call has left; the call completes with it, and the handler
// does not run again.
//
// If found is false, the call has not taken effect, and no attempt of it that still runs somewhere
// will take effect: f must make sure of that, or wait for it. What follows is the same as without
// LookUp. After an error of f, the run is interrupted, and f is called again when the run is
// resumed.
//
// LookUp panics for an agent, which is never in doubt itself.
func (d *Definition[In, Out]) LookUp(f func(ctx context.Context, in In) (out Out, found bool, err error)) *Definition[In, Out] {
	d.mustHaveFunction("LookUp", f == nil)
	d.spec.mustSupportDoubt("LookUp")
	c := *d
	c.lookUp = f
	return &c
}

// LookUp completes the call with the output that it has left elsewhere.
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
