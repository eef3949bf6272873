package runner_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// orders has a program that reserves an order, takes the payment for it, and ships it. Shipping
// fails while closed is set.
type orders struct {
	closed atomic.Bool
	mu     sync.Mutex
	done   []string // steps with their idempotency keys
}

func (o *orders) step(ctx context.Context, name string) error {
	_, err := core.Step(ctx, name, func(ctx context.Context) (string, error) {
		if name == "ship" && o.closed.Load() {
			return "", core.Permanent(errors.New("the warehouse is closed"))
		}
		key, err := core.IdempotencyKey(ctx)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.done = append(o.done, name+" "+key)
		return name, err
	})
	return err
}

func (o *orders) agent(name string) actors.Agent[word, string] {
	return agent(name, func(ctx context.Context, in word) (string, error) {
		for _, name := range []string{"pay", "ship"} {
			if err := o.step(ctx, name); err != nil {
				return "", err
			}
		}
		return in.Text + " is sent", nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
}

func TestFailedRunContinuesUnderItsOwnID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		o := new(orders)
		o.closed.Store(true)
		runner.Register(r, o.agent("order"))
		defer serve(t, r)()
		_, err := r.Start(t.Context(), "order", "order-1", word{"a book"}, runner.StartOptions{})
		require.NoError(t, err)
		info, err := r.Wait(t.Context(), "order-1")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusFailed, info.Status)
		_, err = r.Result(t.Context(), "order-1")
		require.ErrorContains(t, err, "the warehouse is closed; to make the failed calls again: reprise --dir DIR retry order-1")

		require.NoError(t, r.Retry(t.Context(), "order-1"))
		info, err = r.Wait(t.Context(), "order-1")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusFailed, info.Status, "the step is tried again, and the warehouse is still closed")

		o.closed.Store(false)
		require.NoError(t, r.Retry(t.Context(), "order-1"))
		info, err = r.Wait(t.Context(), "order-1")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		result, err := r.Result(t.Context(), "order-1")
		require.NoError(t, err)
		assert.Equal(t, "a book is sent", result)
		require.Len(t, o.done, 2, "want one payment and one shipment: %q", o.done)

		err = r.Retry(t.Context(), "order-1")
		require.ErrorIs(t, err, state.ErrNotFailed)
		require.ErrorContains(t, err, "it is completed")
		require.ErrorIs(t, r.Retry(t.Context(), "none"), snapshot.ErrNotFound)
	})
}

// The process ends at each record of the retry in turn. The next process knows of the request only
// what is stored.
func TestRetryContinuesAfterACrash(t *testing.T) {
	o := new(orders)
	o.closed.Store(true)
	definition := testkit.Agent(t, "outer", core.RetryConfig{MaxAttempts: 1}, func(ctx context.Context, _ string) (string, error) {
		if err := o.step(ctx, "pay"); err != nil {
			return "", err
		}
		return testkit.Call(ctx, testkit.Agent(t, "inner", core.RetryConfig{MaxAttempts: 1}, func(ctx context.Context, _ string) (string, error) {
			// The failure of this step is final, since the agent returns it.
			if err := o.step(ctx, "ship"); err != nil {
				return "", err
			}
			return "sent", nil
		}))
	})
	open := func(t *testing.T, store snapshot.Store) (string, error) {
		st, err := state.Open(t.Context(), store, "run")
		require.NoError(t, err)
		out, err := testkit.Call(st.Context(t.Context()), definition)
		require.NoError(t, st.Close())
		return out, err
	}
	failed := memstore.New()
	_, err := open(t, failed)
	require.ErrorIs(t, err, core.ErrPermanent)
	_, err = failed.Update(t.Context(), "run", func(i *snapshot.Info) error { i.Program, i.Version = "order", "1"; return nil })
	require.NoError(t, err)
	for range 2 { // a repeated request changes nothing
		info, err := state.Retry(t.Context(), failed, "run")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusQueued, info.Status)
	}
	asked := testkit.LoadRun(t, failed, "run")

	o.closed.Store(false)
	o.done = nil
	out, err := open(t, failed)
	require.NoError(t, err)
	assert.Equal(t, "sent", out)
	require.Len(t, o.done, 1)
	whole := testkit.LoadRun(t, failed, "run")
	reasons := 0
	for _, rec := range whole.Records {
		if rec.Reason == record.ReasonRetry {
			reasons++
		}
	}
	assert.Equal(t, 4, reasons, "want a record of the run, both agents and the step")

	for k := len(asked.Records); k < len(whole.Records); k++ {
		info := asked.Info
		if k > len(asked.Records) {
			info.Status, info.Stop = snapshot.StatusInterrupted, snapshot.Stop{Reason: record.InterruptCrash}
		}
		cut, err := snapshot.NewRun(info, func(yield func(record.Record, error) bool) {
			for _, rec := range whole.Records[:k] {
				if !yield(rec, nil) {
					return
				}
			}
		})
		require.NoError(t, err)
		store := memstore.New()
		_, err = store.Create(t.Context(), cut)
		require.NoError(t, err)
		out, err := open(t, store)
		require.NoError(t, err, "cut at %d", k)
		assert.Equal(t, "sent", out)
	}
}

func TestRunsThatABadDeploymentStoppedContinueTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		o := new(orders)
		o.closed.Store(true)
		runner.Register(r, o.agent("order"))
		runner.Register(r, o.agent("other"))
		defer serve(t, r)()
		for _, name := range []string{"order", "other"} {
			for i := range 3 {
				id := fmt.Sprintf("%s-%d", name, i)
				_, err := r.Start(t.Context(), name, id, word{}, runner.StartOptions{})
				require.NoError(t, err)
				_, err = r.Wait(t.Context(), id)
				require.NoError(t, err)
			}
		}
		o.closed.Store(false)
		chosen, err := r.RetryAll(t.Context(), state.Selection{Program: "order", Reason: "exhausted"})
		require.NoError(t, err)
		assert.Empty(t, chosen, "these runs failed for another reason")
		chosen, err = r.RetryAll(t.Context(), state.Selection{Program: "order", Reason: "permanent"})
		require.NoError(t, err)
		require.Len(t, chosen, 3)
		for _, one := range chosen {
			require.NoError(t, one.Err)
			assert.True(t, strings.HasPrefix(one.RunID, "order-"))
			info, err := r.Wait(t.Context(), one.RunID)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status)
		}
		chosen, err = r.ResumeAll(t.Context(), state.Selection{})
		require.NoError(t, err)
		assert.Empty(t, chosen)
		_, err = r.RetryAll(t.Context(), state.Selection{Reason: "bad luck"})
		require.ErrorIs(t, err, state.ErrSelection)
		require.ErrorContains(t, err, "permanent, exhausted")
	})
}

func TestRunOfNobodyIsNeitherResumedNorAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		asks := testkit.Agent(t, "asks", core.RetryConfig{}, func(ctx context.Context, _ string) (string, error) {
			return core.Await[string](ctx, "yes?")
		})
		open := func() {
			st, err := state.Open(t.Context(), store, "mine")
			require.NoError(t, err)
			_, err = testkit.Call(st.Context(t.Context()), asks)
			require.ErrorIs(t, err, core.ErrAwaiting)
			require.NoError(t, st.Close())
		}
		open()
		r := newRunner(t, store, runner.Options{})
		defer serve(t, r)()
		err := r.Answer(t.Context(), "mine", "asks?1", "ann", "yes")
		require.ErrorIs(t, err, state.ErrNoProgram)
		open() // the run asks again
		_, err = store.Update(t.Context(), "mine", func(i *snapshot.Info) error {
			i.Status, i.Stop = snapshot.StatusInterrupted, snapshot.Stop{Reason: record.InterruptUser}
			return nil
		})
		require.NoError(t, err)
		err = r.Resume(t.Context(), "mine")
		require.ErrorIs(t, err, state.ErrNoProgram)
		require.ErrorContains(t, err, "the program that opened it must open it again")
	})
}
