package state_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// leased is a store whose journals lose their run when lost is closed.
type leased struct {
	snapshot.Store
	lost chan struct{}
}

type leasedJournal struct {
	snapshot.Journal
	lost chan struct{}
}

func (s leased) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return leasedJournal{j, s.lost}, err
}

func (j leasedJournal) Lost() <-chan struct{} { return j.lost }

// The compensations of a cancelled run stop, no matter what ends their process, and the next
// opening makes them.
func TestCompensationsOfACancelledRunStop(t *testing.T) {
	hourly := func(ctx context.Context) error { return testkit.Pause(ctx, time.Hour) }
	deaf := func(ctx context.Context) error { return testkit.Pause(context.WithoutCancel(ctx), time.Hour) }
	for name, test := range map[string]struct {
		undo func(context.Context) error
		stop func(t *testing.T, st *state.ExecutionState, lose func()) // while Close compensates
		took time.Duration
	}{
		"interrupt": {hourly, func(t *testing.T, st *state.ExecutionState, _ func()) {
			assert.False(t, st.Interrupt(snapshot.Stop{By: "dev"}), "nobody resumes a cancelled run")
			assert.True(t, st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown}))
			assert.False(t, st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown}))
		}, time.Minute},
		"interrupt and close": {deaf, func(t *testing.T, st *state.ExecutionState, _ func()) {
			st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown})
			<-time.After(5 * time.Second)
			assert.NoError(t, st.Close())
		}, time.Hour},
		"shutdown": {hourly, func(t *testing.T, st *state.ExecutionState, _ func()) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			assert.NoError(t, st.Shutdown(ctx))
		}, time.Minute + 10*time.Second},
		"shutdown, deaf": {deaf, func(t *testing.T, st *state.ExecutionState, _ func()) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			assert.NoError(t, st.Shutdown(ctx))
		}, time.Hour},
		"lost lease": {hourly, func(_ *testing.T, _ *state.ExecutionState, lose func()) { lose() }, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			testkit.Bubble(t, func(t *testing.T) {
				var l bookings
				store := memstore.New()
				lost := make(chan struct{})
				undo := test.undo
				flight := booking(t, &l, "flight", func(ctx context.Context) error { return undo(ctx) })
				st, err := state.Open(t.Context(), leased{store, lost}, askedRun, state.WithCompensations(flight))
				require.NoError(t, err)
				_, err = testkit.Call(st.Context(t.Context()), flight)
				require.NoError(t, err)
				require.True(t, st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"}))
				stopped := make(chan struct{})
				time.AfterFunc(time.Minute, func() {
					defer close(stopped)
					test.stop(t, st, func() { close(lost) })
				})
				began := time.Now()
				_ = st.Close()
				assert.Equal(t, test.took, time.Since(began))
				<-stopped
				assert.Equal(t, snapshot.StatusInterrupted, st.Status())
				info, err := store.Info(t.Context(), askedRun)
				require.NoError(t, err)
				assert.False(t, info.Open)
				assert.Equal(t, snapshot.Stop{Reason: record.InterruptCancel, By: "ops", Message: "wrong customer"}, info.Stop)

				undo = atOnce
				_, err = state.Open(t.Context(), store, askedRun, state.WithCompensations(flight))
				require.ErrorIs(t, err, state.ErrCancelled)
				assertCancelled(t, store)
				assert.Contains(t, l.entries(), "undo flight-in (in)")
			})
		})
	}
}

// Compensations do not begin if the process was about to stop when its run was cancelled.
func TestCancelDuringAShutdownLeavesTheCompensationsToTheNextOpening(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		store := memstore.New()
		flight := booking(t, &l, "flight", atOnce)
		st, err := state.Open(t.Context(), store, askedRun, state.WithCompensations(flight))
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), flight)
		require.NoError(t, err)
		require.True(t, st.Interrupt(snapshot.Stop{Reason: record.InterruptShutdown}))
		require.True(t, st.Cancel(snapshot.Stop{By: "ops", Message: "wrong customer"}))
		require.NoError(t, st.Close())
		assert.Equal(t, "flight in", l.entries())
		_, err = state.Open(t.Context(), store, askedRun, state.WithCompensations(flight))
		require.ErrorIs(t, err, state.ErrCancelled)
		assertCancelled(t, store)
		assert.Equal(t, "flight in, undo flight-in (in)", l.entries())
	})
}

// Open compensates a cancelled run only while its context lasts.
func TestOpenOfACancelledRunEndsWithItsContext(t *testing.T) {
	testkit.Bubble(t, func(t *testing.T) {
		var l bookings
		store := memstore.New()
		undo := func(ctx context.Context) error { return testkit.Pause(ctx, time.Hour) }
		flight := booking(t, &l, "flight", func(ctx context.Context) error { return undo(ctx) })
		known := state.WithCompensations(flight)
		st, err := state.Open(t.Context(), store, askedRun, known)
		require.NoError(t, err)
		_, err = testkit.Call(st.Context(t.Context()), flight)
		require.NoError(t, err)
		require.NoError(t, st.Close())
		_, err = store.Update(t.Context(), askedRun, func(i *snapshot.Info) error {
			i.Status = snapshot.StatusInterrupted
			return nil
		})
		require.NoError(t, err)
		require.NoError(t, cancelRun(t, store))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err = state.Open(ctx, store, askedRun, known)
		require.ErrorIs(t, err, state.ErrCancelled)
		require.ErrorContains(t, err, "but not all of its calls are compensated yet: interrupted (context): context deadline exceeded")
		assert.Equal(t, time.Second, time.Since(began))

		undo = atOnce
		_, err = state.Open(t.Context(), store, askedRun, known)
		require.ErrorIs(t, err, state.ErrCancelled)
		assertCancelled(t, store)
		assert.Contains(t, l.entries(), "undo flight-in (in)")
	})
}
