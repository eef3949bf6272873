package actors_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The second branch begins when the first has failed. When the run is resumed, the first branch is
// recalled, and the second must still learn of its failure.
func TestBranchLearnsOfARecordedFailure(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		store := memstore.New()
		var began []int
		ask := func(ctx context.Context) (int, error) {
			failed := make(chan struct{})
			g := actors.Group{Name: "g", OnFailure: func(branch int, err error) {
				assert.Equal(t, 1, branch)
				assert.ErrorContains(t, err, "bad")
				close(failed)
			}}
			return actors.First(ctx, g,
				func(context.Context) (int, error) {
					began = append(began, 1)
					return 0, core.Permanent(errors.New("bad"))
				},
				func(ctx context.Context) (int, error) {
					<-failed
					began = append(began, 2)
					_, err := core.Await[bool](ctx, "go on?")
					return 2, err
				})
		}
		for range 2 {
			st, err := state.Open(t.Context(), store, "run", state.WithWait())
			require.NoError(t, err)
			out, err := ask(st.Context(t.Context()))
			require.NoError(t, st.Close())
			questions, listErr := state.Questions(t.Context(), store, "run")
			require.NoError(t, listErr)
			if len(questions) == 0 {
				require.NoError(t, err)
				assert.Equal(t, 2, out)
				break
			}
			require.ErrorIs(t, err, core.ErrInterrupted)
			require.NoError(t, state.Answer(t.Context(), store, "run", questions[0].ID, "ann", true))
		}
		assert.Equal(t, []int{1, 2, 2}, began)
	})
}

// The process ends after the winner is recorded but before the group is.
func TestFailureIsRecalledAfterTheWinner(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		race := func(store snapshot.Store) (failed []int) {
			st, err := state.Open(t.Context(), store, "run", state.WithWait())
			require.NoError(t, err)
			defer st.Close()
			lost := make(chan struct{})
			g := actors.Group{Name: "g", OnFailure: func(branch int, _ error) {
				failed = append(failed, branch)
				close(lost)
			}}
			out, err := actors.First(st.Context(t.Context()), g,
				func(context.Context) (int, error) { return 0, core.Permanent(errors.New("bad")) },
				func(context.Context) (int, error) {
					<-lost
					return 2, nil
				})
			require.NoError(t, err)
			assert.Equal(t, 2, out)
			return failed
		}
		store := memstore.New()
		assert.Equal(t, []int{1}, race(store))

		records := testkit.LoadRun(t, store, "run").Records
		won := slices.IndexFunc(records, func(r record.Record) bool {
			return r.Kind == record.KindStep && r.Status == record.StatusCompleted
		})
		cut, err := testkit.Stored(snapshot.StatusRunning, records[:won+1]...).Run()
		require.NoError(t, err)
		killed := memstore.New()
		_, err = killed.Create(t.Context(), cut)
		require.NoError(t, err)
		assert.Equal(t, []int{1}, race(killed))
	})
}

// A branch of First fails, and the winner is compensated because the run fails. In both retries,
// the winner is called again. The failed branch is not called again, but OnFailure is called for
// it.
func TestFailureIsRecalledWhenTheWinnerWasCompensated(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		store, fails, payFails := memstore.New(), true, false
		pay := decorators.Tool("pay", "", func(context.Context, number) (string, error) {
			if payFails {
				return "", core.Permanent(errors.New("pay fails"))
			}
			return "paid", nil
		}).Compensate(func(context.Context, number, string) error { return nil })
		end := decorators.Tool("end", "", func(context.Context, number) (string, error) {
			if fails {
				return "", core.Permanent(errors.New("no"))
			}
			return "ok", nil
		})
		agent := decorators.Agent("a", "", func(ctx context.Context, _ number) (string, error) {
			lost := make(chan struct{})
			g := actors.Group{Name: "g", OnFailure: func(int, error) { close(lost) }}
			_, err := actors.First(ctx, g,
				func(context.Context) (string, error) { return "", core.Permanent(errors.New("bad")) },
				func(ctx context.Context) (string, error) {
					<-lost
					return pay.Call(ctx, number{})
				})
			if err != nil {
				return "", err
			}
			return end.Call(ctx, number{})
		})
		run := func() error {
			st, err := state.Open(t.Context(), store, "r", state.WithCompensations(pay))
			require.NoError(t, err)
			_, err = agent.Call(st.Context(t.Context()), number{})
			require.NoError(t, st.Close())
			return err
		}
		require.ErrorContains(t, run(), "no")
		_, err := state.Retry(t.Context(), store, "r")
		require.NoError(t, err)
		fails, payFails = false, true
		require.ErrorContains(t, run(), "pay fails")
		_, err = state.Retry(t.Context(), store, "r")
		require.NoError(t, err)
		payFails = false
		assert.NoError(t, run())
	})
}

func TestPanicOfOnFailureIsPartOfTheErrorOfTheBranch(t *testing.T) {
	g := actors.Group{Name: "g", CollectAll: true, OnFailure: func(int, error) { panic("oops") }}
	_, err := actors.Parallel(t.Context(), g,
		func(context.Context) (int, error) { return 0, core.Permanent(errors.New("bad")) },
		func(context.Context) (int, error) { return 1, nil })
	require.ErrorContains(t, err, "bad")
	require.ErrorContains(t, err, "oops")
	var p *core.PanicError
	require.ErrorAs(t, err, &p)
}
