package core_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

// elsewhere is the place outside the run where calls store their outputs, by idempotency key.
type elsewhere struct {
	left map[string]string
	err  error // returned by lookUp
	made int   // how often leave was called
}

func (e *elsewhere) leave(ctx context.Context, out string) {
	key, err := core.IdempotencyKey(ctx)
	if err != nil {
		panic(err)
	}
	e.left[key] = out
	e.made++
}

func (e *elsewhere) lookUp(ctx context.Context, _ string) (string, bool, error) {
	key, err := core.IdempotencyKey(ctx)
	if err != nil || e.err != nil {
		return "", false, errors.Join(err, e.err)
	}
	out, found := e.left[key]
	return out, found, ctx.Err()
}

func TestAnAttemptThatWasTooLateIsLookedUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		e := &elsewhere{left: map[string]string{}}
		pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", AttemptTimeout: time.Second, Retry: &core.RetryConfig{MaxAttempts: 1}}, func(ctx context.Context, in string) (string, error) {
			e.leave(ctx, "paid "+in)
			<-ctx.Done()
			return "", ctx.Err()
		}).LookUp(e.lookUp)
		_, ctx := testkit.Run(t)
		out, err := pay.Event().Execute(ctx, "Ada")
		require.NoError(t, err)
		assert.Equal(t, "paid Ada", out)
		assert.Equal(t, 1, e.made)
	})
}

// A deadline that the caller sets for a call ends the call, but not the search for the call's
// output, which would otherwise fail and interrupt the run.
func TestACallWhoseDeadlineHasPassedIsLookedUp(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		for _, irreversible := range []bool{false, true} {
			e := &elsewhere{left: map[string]string{}}
			pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", Irreversible: irreversible}, func(ctx context.Context, in string) (string, error) {
				e.leave(ctx, "paid "+in)
				<-ctx.Done()
				return "", ctx.Err()
			}).LookUp(e.lookUp)
			_, ctx := testkit.Run(t)
			out, err := testkit.Call(ctx, testkit.Agent(t, "agent", core.RetryConfig{}, func(ctx context.Context, in string) (string, error) {
				ctx, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return pay.Event().Execute(ctx, in)
			}))
			require.NoError(t, err)
			assert.Equal(t, "paid in", out)
			assert.Equal(t, 1, e.made)
		}
	})
}

func TestACallWhoseOutputIsNotFoundFails(t *testing.T) {
	e := &elsewhere{left: map[string]string{}}
	failed := errors.New("no money")
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay"}, testkit.Fail(failed)).LookUp(e.lookUp)
	_, ctx := testkit.Run(t)
	_, err := pay.Event().Execute(ctx, "Ada")
	require.ErrorIs(t, err, failed)
}

func TestFoundOutputMustPassThePostconditions(t *testing.T) {
	e := &elsewhere{left: map[string]string{}}
	wrong := errors.New("it is wrong")
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay"}, func(ctx context.Context, _ string) (string, error) {
		e.leave(ctx, "paid")
		return "", errors.New("cut off")
	}).Ensure(func(context.Context, string, string) error { return wrong }).LookUp(e.lookUp)
	_, ctx := testkit.Run(t)
	_, err := pay.Event().Execute(ctx, "Ada")
	require.ErrorIs(t, err, wrong)
}

func TestASearchThatFailsInterruptsTheRun(t *testing.T) {
	e := &elsewhere{left: map[string]string{}, err: errors.New("no connection")}
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay"}, testkit.Fail(errors.New("cut off"))).LookUp(e.lookUp)
	_, ctx := testkit.Run(t)
	_, err := pay.Event().Execute(ctx, "Ada")
	assert.True(t, core.IsSuspension(err), "%v", err)
	assert.ErrorContains(t, err, "it is not known whether pay took effect: no connection")
}

func TestLookUpIsForCallsThatMayBeInDoubt(t *testing.T) {
	agent := testkit.Define(t, core.Spec{Kind: record.KindAgent, Name: "agent"}, testkit.Fail(errors.New("x")))
	assert.PanicsWithValue(t, `core: LookUp does not apply to "agent", which is never in doubt itself; use it for the calls that "agent" makes`, func() {
		agent.LookUp(func(context.Context, string) (string, bool, error) { return "", false, nil })
	})
	assert.Panics(t, func() {
		testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay"}, testkit.Fail(errors.New("x"))).LookUp(nil)
	})
}
