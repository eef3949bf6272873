package runner_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A picky store rejects the outcomes of tools while isPicky is set.
type picky struct {
	snapshot.Store
	isPicky atomic.Bool
}

var errTooLarge = errors.New("the outcome is too large")

func (s *picky) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return &pickyJournal{Journal: j, store: s}, err
}

type pickyJournal struct {
	snapshot.Journal
	store *picky
}

func (j *pickyJournal) Append(records ...record.Record) error {
	for i := range records {
		if j.store.isPicky.Load() && records[i].Kind == record.KindTool && records[i].IsOutcome() {
			return errTooLarge
		}
	}
	return j.Journal.Append(records...)
}

func TestRunWhoseOutcomeCannotBeStoredIsSetAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &picky{Store: memstore.New()}
		store.isPicky.Store(true)
		var made []time.Time
		pay := decorators.Tool("pay", "", func(context.Context, word) (string, error) {
			made = append(made, time.Now())
			return "paid", nil
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
		r := newRunner(t, store, runner.Options{MaxRestarts: 3})
		runner.Register(r, agent("shop", func(ctx context.Context, in word) (string, error) { return pay.Call(ctx, in) }))
		stop := serve(t, r)
		_, err := r.Start(t.Context(), "shop", "a", word{"10"}, runner.StartOptions{})
		require.NoError(t, err)
		info, err := r.Wait(t.Context(), "a")
		require.ErrorIs(t, err, runner.ErrCrashLoop)
		assert.Contains(t, info.Stop.Message, "its records could not be stored 4 times in a row: ")
		assert.Contains(t, info.Stop.Message, errTooLarge.Error())
		require.Len(t, made, 4, "the effect must not be repeated more often than after a crash")
		for i := 2; i < len(made); i++ {
			assert.Greater(t, made[i].Sub(made[i-1]), made[i-1].Sub(made[i-2]), "the delays grow")
		}
		sleep(time.Hour)
		require.Len(t, made, 4, "no sweep continues the run")

		store.isPicky.Store(false)
		require.NoError(t, r.Resume(t.Context(), "a"))
		info, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		require.NoError(t, stop())
	})
}
