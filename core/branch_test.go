package core_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/engine"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
)

// groupOf returns a group with two branches and the given handler.
func groupOf(t *testing.T, handler testkit.Handler) *testkit.Definition {
	return testkit.Define(t, core.Spec{Kind: record.KindGroup, Name: "g", Branches: 2}, handler)
}

func TestBranchIsMadeOnceByTheHandlerOfItsGroup(t *testing.T) {
	ran := 0
	tool := testkit.Tool(t, "tool", once, testkit.Counted(&ran, testkit.Succeed))
	branch := func(ctx context.Context, i int) error {
		_, err := tool.Event().InBranch(i).Execute(ctx, "in")
		return err
	}
	for name, open := range map[string]func() context.Context{
		"in a run":      func() context.Context { _, ctx := testkit.Run(t); return ctx },
		"outside a run": t.Context,
	} {
		t.Run(name, func(t *testing.T) {
			ctx := open()
			ran = 0
			require.EqualError(t, branch(ctx, 1), `core: InBranch(1) of "tool": the branch is made outside the handler of a group`)
			_, err := testkit.Call(ctx, testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
				return "", branch(ctx, 1)
			}))
			require.ErrorContains(t, err, "outside the handler of a group")
			assert.Zero(t, ran)

			_, err = testkit.Call(ctx, groupOf(t, func(ctx context.Context, _ string) (string, error) {
				for _, i := range []int{0, -1, 3} {
					require.ErrorContains(t, branch(ctx, i), "the group has the branches 1 to 2")
				}
				require.NoError(t, branch(ctx, 2))
				require.ErrorContains(t, branch(ctx, 2), "the group has already made this branch")
				_, err := tool.Event().InBranch(2).Prepare(ctx, "in").Execute(ctx)
				require.ErrorContains(t, err, "the group has already made this branch")
				return "", branch(ctx, 1)
			}))
			require.NoError(t, err)
			assert.Equal(t, 2, ran)
		})
	}
}

func TestEndOfAGroupPrevailsOverWhatItsHandlerReturns(t *testing.T) {
	for name, tt := range map[string]struct {
		end    func(context.Context)
		want   error
		reason record.Reason
	}{
		"failed":    {func(ctx context.Context) { engine.EndGroup(ctx, errBoom) }, errBoom, record.ReasonPermanent},
		"timed out": {func(ctx context.Context) { engine.EndGroup(ctx, core.ErrGroupTimeout) }, core.ErrGroupTimeout, record.ReasonGroupTimeout},
		"ended":     {func(ctx context.Context) { engine.EndGroup(ctx, nil) }, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, ctx := testkit.Run(t)
			_, err := testkit.Call(ctx, groupOf(t, func(ctx context.Context, _ string) (string, error) {
				tt.end(ctx)
				return "", nil
			}))
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, tt.want)
			testkit.Failed(t, err, tt.reason)
		})
	}
}

func TestPreconditionThatExitsItsGoroutineHasFailed(t *testing.T) {
	st, ctx := testkit.Run(t)
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = testkit.Call(ctx, testkit.Tool(t, "tool", steady, testkit.Succeed).Require(func(context.Context, string) error { exit(); return nil }))
	}()
	<-left
	wantRecords(t, st, "failed(0,panic,panic,@precondition)")
	last := calls(t, st)[0]
	assert.ErrorContains(t, last.Err, "runtime.Goexit")
}

// changing is an error whose text changes after it has been returned.
type changing struct{ text string }

func (e *changing) Error() string { return e.text }

func TestRecordedCauseOfAnInterruptDoesNotChange(t *testing.T) {
	st, ctx := testkit.Run(t)
	cause := &changing{"the service goes down"}
	agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		group := groupOf(t, func(ctx context.Context, _ string) (string, error) {
			ends := testkit.Tool(t, "tool", once, func(inside context.Context, _ string) (string, error) {
				engine.EndGroup(ctx, cause)
				return "", inside.Err()
			})
			_, err := ends.Event().InBranch(1).Execute(ctx, "in")
			return "", err
		})
		_, err := testkit.Call(ctx, group)
		return "", err
	})
	_, err := testkit.Call(ctx, agent)
	require.ErrorIs(t, err, cause)
	cause.text = "changed"
	found := 0
	for _, r := range calls(t, st) {
		if e := r.Interrupt(); e != nil {
			found++
			assert.ErrorContains(t, e, "the service goes down")
			assert.True(t, errors.Is(e, cause))
		}
		if r.Status == record.StatusFailed {
			assert.NotContains(t, r.Err.Error(), "changed")
		}
	}
	assert.NotZero(t, found)
}
