package state_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/state"
)

// These tests check that the values and the usage that an attempt leaves behind count only once.

func TestLateLogLineLeavesTheValuesOfItsAttempt(t *testing.T) {
	var late *state.Handle
	tool := newTool("work", func(ctx context.Context) (string, error) {
		late = state.From(ctx)
		return "", state.Put(ctx, "k", 1)
	}, actors.WithRetry(core.RetryConfig{RetryWhen: func(core.Attempt) bool {
		late.Log(slog.LevelInfo, "after the handler returned", nil)
		return false
	}}))
	st := state.New()
	defer st.Close()
	ctx := st.Context(t.Context())
	_, err := tool.Call(ctx, item{})
	require.NoError(t, err)
	v, ok, err := state.Get[int](ctx, "k")
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, 1, v)
}

func TestValueOfAPreconditionBelongsToItsCall(t *testing.T) {
	for name, options := range map[string][]actors.Option{
		"without a timeout": nil,
		"with a timeout":    {actors.WithAttemptTimeout(time.Minute)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				seen := 0 // number of attempts that saw the value
				tool := newTool("work", func(ctx context.Context) (string, error) {
					if _, ok, _ := state.Get[int](ctx, "k"); ok {
						seen++
					}
					if core.ScopeOf(ctx).Attempt() == 0 {
						return beBusy(ctx)
					}
					return "", nil
				}, options...).Require(func(ctx context.Context, _ item) error { return state.Put(ctx, "k", 1) })
				st := state.New()
				defer st.Close()
				ctx := st.Context(t.Context())
				_, err := tool.Call(ctx, item{})
				require.NoError(t, err)
				assert.Equal(t, 2, seen)
				_, after, _ := state.Get[int](ctx, "k")
				assert.True(t, after, "everyone sees the value once the call has completed")
			})
		})
	}
}

func TestUsageInABranchIsThatOfTheBranch(t *testing.T) {
	tool := newTool("work", func(ctx context.Context) (string, error) {
		branch := func(ctx context.Context) (int, error) {
			core.AddUsage(ctx, core.Usage{InputTokens: 7})
			return 0, nil
		}
		_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, branch, branch)
		return "", err
	})
	st := state.New()
	defer st.Close()
	_, err := tool.Call(st.Context(t.Context()), item{})
	require.NoError(t, err)
	var used []string
	for _, r := range testkit.Records(t, st) {
		if r.Detail != nil && !r.Detail.Usage.IsZero() {
			used = append(used, fmt.Sprint(r.Kind, " ", r.Detail.Usage.InputTokens))
		}
	}
	assert.Equal(t, []string{"branch 7", "branch 7"}, used)
}

func TestUsageOfAnAttemptIsCountedOnceThoughItsWaitIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		console := printer.New(nil)
		st := state.New(state.WithPublisher(console))
		time.AfterFunc(time.Millisecond, func() { interrupt(st) })
		tool := newTool("work", func(ctx context.Context) (string, error) {
			core.AddUsage(ctx, core.Usage{InputTokens: 10})
			return beBusy(ctx)
		})
		_, err := tool.Call(st.Context(t.Context()), item{})
		require.ErrorIs(t, err, core.ErrInterrupted)
		require.NoError(t, st.Close())
		total := 0
		for _, r := range testkit.Records(t, st) {
			if r.Detail != nil {
				total += r.Detail.Usage.InputTokens
			}
		}
		assert.Equal(t, 10, total)
		assert.Equal(t, 10, console.Summary().Usage.InputTokens)
	})
}
