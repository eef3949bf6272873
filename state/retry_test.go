package state_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A warehouse takes the payment for an order and ships it. Shipping fails while closed is set.
type warehouse struct {
	closed          bool
	payments, ships int
}

// open opens the run without options, like a program that does not use a runner, and calls the
// agent. It returns the run's status afterwards.
func (s *warehouse) open(t *testing.T, store snapshot.Store) (snapshot.Status, error) {
	t.Helper()
	st, err := state.Open(t.Context(), store, "order-1")
	require.NoError(t, err)
	agent := testkit.Agent(t, "order", once, func(ctx context.Context, _ string) (string, error) {
		if _, err := core.Step(ctx, "pay", func(context.Context) (int, error) { s.payments++; return 1, nil }); err != nil {
			return "", err
		}
		return core.Step(ctx, "ship", func(context.Context) (string, error) {
			if s.ships++; s.closed {
				return "", core.Permanent(errors.New("the warehouse is closed"))
			}
			return "sent", nil
		})
	})
	_, failed := testkit.Call(st.Context(t.Context()), agent)
	require.NoError(t, st.Close())
	return st.Status(), failed
}

func TestRunThatNoRunnerStartedIsRetriedByItsProgram(t *testing.T) {
	files, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	for name, store := range map[string]snapshot.Store{"files": files, "memory": memstore.New()} {
		t.Run(name, func(t *testing.T) {
			s := &warehouse{closed: true}
			for range 2 { // the failure is final
				status, err := s.open(t, store)
				require.ErrorContains(t, err, "the warehouse is closed")
				require.Equal(t, snapshot.StatusFailed, status)
			}
			require.Equal(t, 1, s.ships)
			for range 2 { // calling Retry again changes nothing
				info, err := state.Retry(t.Context(), store, "order-1")
				require.NoError(t, err)
				assert.Equal(t, snapshot.StatusInterrupted, info.Status)
				assert.Equal(t, "retry: its program tries the failed calls again when it opens the run", info.Stop.String())
				assert.Equal(t, info.LastSeq, info.RetryTo)
			}
			_, err := state.Resume(t.Context(), store, "order-1")
			require.ErrorIs(t, err, state.ErrNoProgram)
			_, err = state.Result[string](t.Context(), store, "order-1")
			require.ErrorContains(t, err, "the warehouse is closed")

			status, err := s.open(t, store)
			require.ErrorContains(t, err, "the warehouse is closed", "it is tried again, and fails again")
			require.Equal(t, snapshot.StatusFailed, status)
			require.Equal(t, 2, s.ships)

			_, err = state.Retry(t.Context(), store, "order-1")
			require.NoError(t, err)
			s.closed = false
			status, err = s.open(t, store)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, status)
			assert.Equal(t, warehouse{payments: 1, ships: 3}, *s)
			_, err = state.Retry(t.Context(), store, "order-1")
			require.ErrorIs(t, err, state.ErrNotFailed)
		})
	}
}

// failedOrder returns a store with a run that failed and is to be retried by its program.
func failedOrder(t *testing.T) (*warehouse, snapshot.Store) {
	t.Helper()
	store, s := memstore.New(), &warehouse{closed: true}
	_, err := s.open(t, store)
	require.Error(t, err)
	_, err = state.Retry(t.Context(), store, "order-1")
	require.NoError(t, err)
	return s, store
}

func TestRetriedRunKeepsItsRequestIfNothingWasCalled(t *testing.T) {
	s, store := failedOrder(t)
	st, err := state.Open(t.Context(), store, "order-1")
	require.NoError(t, err)
	require.NoError(t, st.Close())
	info, err := state.Retry(t.Context(), store, "order-1")
	require.NoError(t, err)
	assert.Equal(t, record.InterruptRetry, info.Stop.Reason)
	s.closed = false
	status, err := s.open(t, store)
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusCompleted, status)
}

func TestRetriedRunCanBeCancelledForkedAndDeleted(t *testing.T) {
	s, store := failedOrder(t)
	require.NoError(t, state.Fork(t.Context(), store, "order-1", testkit.Address(t, "order/step:ship"), "order-2", state.ForkOptions{}))
	fork, err := store.Info(t.Context(), "order-2")
	require.NoError(t, err)
	assert.Zero(t, fork.RetryTo)

	require.NoError(t, state.Cancel(t.Context(), store, "order-1", snapshot.Stop{By: "ops"}))
	_, err = state.Open(t.Context(), store, "order-1")
	require.ErrorIs(t, err, state.ErrCancelled)
	_, err = state.Retry(t.Context(), store, "order-1")
	require.ErrorIs(t, err, state.ErrNotFailed)
	require.NoError(t, store.Delete(t.Context(), "order-1"))
	require.Equal(t, 1, s.ships)

	_, store = failedOrder(t)
	require.NoError(t, store.Delete(t.Context(), "order-1"))
}

func TestRetriedRunThatWasInterruptedAgainIsNotRetriedTwice(t *testing.T) {
	_, store := failedOrder(t)
	st, err := state.Open(t.Context(), store, "order-1")
	require.NoError(t, err)
	st.Interrupt(snapshot.Stop{By: "ops"})
	require.NoError(t, st.Close())
	_, err = state.Retry(t.Context(), store, "order-1")
	require.ErrorIs(t, err, state.ErrNotFailed)
	require.ErrorContains(t, err, "the run is interrupted (by ops); it will continue when its program opens it")
}

func TestResumeOrRetryThatChangesNothingWritesNothing(t *testing.T) {
	files, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	for name, store := range map[string]snapshot.Store{"files": files, "memory": memstore.New()} {
		t.Run(name, func(t *testing.T) {
			unchanged := func(runID string, status snapshot.Status, change func(context.Context, snapshot.Store, string) (snapshot.Info, error)) {
				t.Helper()
				before, err := store.Info(t.Context(), runID)
				require.NoError(t, err)
				require.Equal(t, status, before.Status)
				info, err := change(t.Context(), store, runID)
				require.NoError(t, err)
				assert.Equal(t, before, info)
				after, err := store.Info(t.Context(), runID)
				require.NoError(t, err)
				assert.Equal(t, before, after)
			}
			for range 2 { // with and without records
				st, err := state.Open(t.Context(), store, "asks")
				require.NoError(t, err)
				unchanged("asks", snapshot.StatusRunning, state.Resume)
				ask := testkit.Agent(t, "ask", once, func(ctx context.Context, _ string) (string, error) { return core.Await[string](ctx, "which?") })
				_, err = testkit.Call(st.Context(t.Context()), ask)
				require.ErrorIs(t, err, core.ErrAwaiting)
				require.NoError(t, st.Close())
				unchanged("asks", snapshot.StatusPaused, state.Resume)
			}

			s := &warehouse{closed: true}
			_, err := s.open(t, store)
			require.Error(t, err)
			_, err = state.Retry(t.Context(), store, "order-1")
			require.NoError(t, err)
			unchanged("order-1", snapshot.StatusInterrupted, state.Retry)
			_, err = store.Update(t.Context(), "order-1", func(i *snapshot.Info) error {
				i.Status, i.Stop, i.Program = snapshot.StatusQueued, snapshot.Stop{}, "order"
				return nil
			})
			require.NoError(t, err)
			unchanged("order-1", snapshot.StatusQueued, state.Retry)
		})
	}
}

// A retry repeats a call that failed in doubt, and records that it does so, unless LookUp finds the
// effect.
func TestRetryOfACallThatFailedInDoubt(t *testing.T) {
	for name, c := range map[string]struct {
		found  bool
		out    string
		paid   int
		warned int
	}{
		"made again": {out: "receipt 2", paid: 2, warned: 1},
		"looked up":  {found: true, out: "receipt 1", paid: 1},
	} {
		t.Run(name, func(t *testing.T) {
			store, paid := memstore.New(), 0
			pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtFail}, func(context.Context, string) (string, error) {
				if paid++; paid == 1 {
					return "", core.InDoubt(errBoom)
				}
				return "receipt 2", nil
			})
			program := func(runID string) (string, error) {
				st, err := state.Open(t.Context(), store, runID)
				require.NoError(t, err)
				out, err := testkit.Call(st.Context(t.Context()), testkit.Agent(t, "order", once, through(pay)))
				require.NoError(t, st.Close())
				return out, err
			}
			_, err := program("order-1")
			require.ErrorIs(t, err, core.ErrInDoubt)
			require.NoError(t, state.Fork(t.Context(), store, "order-1", testkit.Address(t, "order/pay"), "order-2", state.ForkOptions{Outputs: map[string]any{"order/pay": "receipt 1"}}))
			out, err := program("order-2")
			require.NoError(t, err)
			assert.Equal(t, "receipt 1", out)
			assert.Equal(t, 1, paid)

			_, err = state.Retry(t.Context(), store, "order-1")
			require.NoError(t, err)
			if c.found { // the next version of the program has a LookUp
				pay = pay.LookUp(func(context.Context, string) (string, bool, error) { return "receipt 1", true, nil })
			}
			for range 2 {
				out, err = program("order-1")
				require.NoError(t, err)
				assert.Equal(t, c.out, out)
				assert.Equal(t, c.paid, paid)
			}
			warned := 0
			for _, r := range testkit.LoadRun(t, store, "order-1").Records {
				if r.Kind == record.KindLog {
					warned++
					assert.Equal(t, "order/pay failed in doubt, and is made again because the run is retried: if it took effect before, it now takes effect twice", r.Message())
				}
			}
			assert.Equal(t, c.warned, warned)
		})
	}
}

func TestRetryOfACallThatFailedAccordingToAnAnswerWarnsOfNothing(t *testing.T) {
	store, paid := memstore.New(), 0
	pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: core.InDoubtAsk}, func(context.Context, string) (string, error) {
		if paid++; paid == 1 {
			return "", core.InDoubt(errBoom)
		}
		return "receipt", nil
	})
	program := func() (string, error) {
		st, err := state.Open(t.Context(), store, runID)
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), pay)
		require.NoError(t, st.Close())
		return out, err
	}
	_, err := program()
	require.ErrorIs(t, err, core.ErrAwaiting)
	open, err := state.Questions(t.Context(), store, runID)
	require.NoError(t, err)
	require.NoError(t, state.Answer(t.Context(), store, runID, open[0].ID, "", state.InDoubtFailed("no money")))
	_, err = program()
	require.ErrorContains(t, err, "no money")
	_, err = state.Retry(t.Context(), store, runID)
	require.NoError(t, err)
	out, err := program()
	require.NoError(t, err)
	assert.Equal(t, "receipt", out)
	for _, r := range testkit.LoadRun(t, store, runID).Records {
		assert.NotEqual(t, record.KindLog, r.Kind, r.Message())
	}
}
