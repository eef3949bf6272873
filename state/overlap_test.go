package state_test

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

func TestOverlappingCallsOfGoroutinesAreReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := testkit.Tool(t, "slow", core.RetryConfig{}, testkit.Listening(time.Second))
		inGoroutines := func(ctx context.Context, call func(i int) error) {
			var all sync.WaitGroup
			for i := range 3 {
				all.Go(func() { assert.NoError(t, call(i)) })
			}
			all.Wait()
		}
		direct := func(ctx context.Context) {
			inGoroutines(ctx, func(int) error { _, err := testkit.Call(ctx, slow); return err })
		}
		for name, tc := range map[string]struct {
			do   func(context.Context)
			want int
		}{
			"goroutines": {direct, 1},
			"steps": {func(ctx context.Context) {
				inGoroutines(ctx, func(int) error {
					_, err := core.Step(ctx, "step", func(ctx context.Context) (string, error) { return "", testkit.Pause(ctx, time.Second) })
					return err
				})
			}, 1},
			"one after another": {func(ctx context.Context) {
				for range 3 {
					_, err := testkit.Call(ctx, slow)
					assert.NoError(t, err)
				}
			}, 0},
			"map": {func(ctx context.Context) {
				_, err := actors.Map(ctx, actors.Group{Name: "g"}, slow, []string{"a", "b", "c"})
				assert.NoError(t, err)
			}, 0},
			"branches": {func(ctx context.Context) {
				branch := func(ctx context.Context) (string, error) { return testkit.Call(ctx, slow) }
				_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, branch, branch)
				assert.NoError(t, err)
			}, 0},
			"goroutines in branches": {func(ctx context.Context) {
				branch := func(ctx context.Context) (string, error) { direct(ctx); return "", nil }
				_, err := actors.Parallel(ctx, actors.Group{Name: "g"}, branch, branch)
				assert.NoError(t, err)
			}, 2},
			"prepared": {func(ctx context.Context) {
				var prepared [3]*core.PreparedCall[string, string]
				for i := range prepared {
					prepared[i] = slow.Event().Prepare(ctx, "in")
				}
				inGoroutines(ctx, func(i int) error { _, err := prepared[i].Execute(ctx); return err })
			}, 0},
			"one beside prepared ones": {func(ctx context.Context) {
				first := slow.Event().Prepare(ctx, "in")
				var all sync.WaitGroup
				all.Go(func() { _, _ = first.Execute(ctx) })
				_, err := testkit.Call(ctx, slow)
				assert.NoError(t, err)
				all.Wait()
			}, 0},
		} {
			s := memstore.New()
			for opening := 1; opening <= 2; opening++ { // first a new run, then the resumed one
				st, err := state.Open(t.Context(), s, "run-1")
				require.NoError(t, err)
				agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
					tc.do(ctx)
					if opening == 1 {
						state.From(ctx).Interrupt(snapshot.Stop{})
						return "", ctx.Err()
					}
					tc.do(ctx)
					return "", nil
				})
				_, err = testkit.Call(st.Context(t.Context()), agent)
				require.Equal(t, opening == 1, err != nil, "%s: %v", name, err)
				require.NoError(t, st.Close())
				warnings := warned(t, s, "calls overlap")
				assert.Len(t, warnings, opening*tc.want, name)
				for _, r := range warnings {
					assert.Contains(t, r.Message(), "actors.Parallel")
				}
			}
		}
	})
}

// warned returns the warnings of the run "run-1", after checking that they contain the text.
func warned(t *testing.T, s snapshot.Store, text string) (warnings []record.Record) {
	t.Helper()
	found, err := s.Load(t.Context(), "run-1")
	require.NoError(t, err)
	for r, err := range found.Records() {
		require.NoError(t, err)
		if r.Kind == record.KindLog && r.Detail.Severity == slog.LevelWarn {
			assert.Contains(t, r.Message(), text)
			warnings = append(warnings, r)
		}
	}
	return warnings
}

// If goroutines make calls with the same name and input at the same time, these calls differ only
// in the order of their claims. They are refused if swapping them would change a result.
func TestCallsOfGoroutinesAreNotSwappedSilently(t *testing.T) {
	for name, c := range map[string]struct {
		outputs []string // of the calls, in the order of their ends; "" for a call that does not end before the run stops
		refused string
	}{
		"with one output":       {[]string{"x", "x", "x"}, ""},
		"with several outputs":  {[]string{"x", "y", "x"}, "their outcomes differ"},
		"one without an output": {[]string{"x", "x", ""}, "only some of them have an outcome"},
		"none with an output":   {[]string{"", "", ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, outputs := memstore.New(), c.outputs
				var made atomic.Int32
				tool := testkit.Tool(t, "sample", once, func(ctx context.Context, _ string) (string, error) {
					i := int(made.Add(1)) - 1
					if i < len(outputs) && outputs[i] == "" {
						return "", testkit.Pause(ctx, time.Hour)
					}
					if err := testkit.Pause(ctx, time.Second); err != nil {
						return "", err
					}
					if i < len(outputs) {
						return outputs[i], nil
					}
					return "x", nil
				})
				agent := testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
					var all sync.WaitGroup
					for range len(outputs) {
						all.Go(func() { _, _ = testkit.Call(ctx, tool) })
					}
					all.Wait()
					if int(made.Load()) == len(outputs) {
						state.From(ctx).Interrupt(snapshot.Stop{})
						return "", ctx.Err()
					}
					return "done", nil
				})
				open := func(options ...state.Option) error {
					st, err := state.Open(t.Context(), s, "run-1", options...)
					require.NoError(t, err)
					defer time.AfterFunc(time.Minute, func() { st.Interrupt(snapshot.Stop{}) }).Stop()
					_, err = testkit.Call(st.Context(t.Context()), agent)
					require.NoError(t, st.Close())
					return err
				}
				require.ErrorIs(t, open(), core.ErrInterrupted)
				before := made.Add(1) // adds one call, so that the agent does not interrupt again
				err := open()
				if c.refused == "" {
					require.NotErrorIs(t, err, core.ErrDivergence)
					return
				}
				require.ErrorIs(t, err, core.ErrDivergence)
				require.ErrorContains(t, err, c.refused)
				require.ErrorContains(t, err, "Use actors.Map, actors.Parallel or Prepare")
				assert.Equal(t, before, made.Load(), "nothing ran")
				require.NoError(t, open(state.WithDivergence(state.DivergenceTrust)))
			})
		})
	}
}

// Quick calls can be numbered in a different order even if they do not overlap, so there was no
// warning before.
func TestDivergenceOfAnInputNamesWhatNumbersCallsFromGoroutines(t *testing.T) {
	s := memstore.New()
	look := testkit.Tool(t, "look", core.RetryConfig{}, testkit.Succeed)
	visit := func(first string) error {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		_, err = testkit.Call(st.Context(t.Context()), testkit.Agent(t, "agent", core.RetryConfig{}, func(ctx context.Context, _ string) (string, error) {
			_, err := look.Event().Execute(ctx, first)
			st.Interrupt(snapshot.Stop{By: "ops"})
			if err == nil {
				err = ctx.Err()
			}
			return "", err
		}))
		return err
	}
	require.ErrorIs(t, visit("Oslo"), core.ErrInterrupted)
	err := visit("Rome")
	require.ErrorIs(t, err, core.ErrDivergence)
	require.ErrorContains(t, err, "actors.Map, actors.Parallel or Prepare for calls from goroutines")
}
