package runner_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A compensation that takes an hour does not delay the end of Serve, and is not lost: the next
// runner runs it.
func TestServeStopsTheCompensationsOfACancelledRun(t *testing.T) {
	untilCancelled := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, test := range map[string]struct {
		end  func(context.Context) error // what the run does when it is cancelled
		deaf bool                        // the compensation ignores its context
	}{
		"open":          {untilCancelled, false},
		"waiting":       {askToGoOn, false},
		"open, deaf":    {untilCancelled, true},
		"waiting, deaf": {askToGoOn, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, slow, undone := memstore.New(), true, 0
				var cause error
				undo := func(ctx context.Context) error {
					if !slow {
						undone++
						return nil
					}
					if test.deaf {
						<-time.After(time.Hour)
						return nil
					}
					select {
					case <-ctx.Done():
						cause = context.Cause(ctx)
						return ctx.Err()
					case <-time.After(time.Hour):
						return errors.New("it was not stopped")
					}
				}
				r := newRunner(t, store, runner.Options{})
				program := registerTrip(r, test.end, undo)
				stop := serve(t, r)
				_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
				require.NoError(t, err)
				synctest.Wait()
				require.NoError(t, r.Cancel(t.Context(), "a", snapshot.Stop{By: "ops"}))
				synctest.Wait()

				began := time.Now()
				err = stop()
				if test.deaf {
					require.ErrorIs(t, err, runner.ErrNotStopped)
					require.EqualError(t, err, "runner: runs did not stop when they were interrupted: a")
					assert.LessOrEqual(t, time.Since(began), 16*time.Second)
				} else {
					require.NoError(t, err)
					assert.Equal(t, 10*time.Second, time.Since(began), "the Grace")
					require.EqualError(t, cause, "interrupted (shutdown)")
				}
				info, err := store.Info(t.Context(), "a")
				require.NoError(t, err)
				assert.False(t, info.Open)
				assert.Equal(t, snapshot.StatusInterrupted, info.Status)
				assert.Equal(t, snapshot.Stop{Reason: "cancel", By: "ops"}, info.Stop)

				slow = false
				r = newRunner(t, store, runner.Options{})
				registerTrip(r, test.end, undo)
				defer serve(t, r)()
				info, err = r.Wait(t.Context(), "a")
				require.NoError(t, err)
				assert.Equal(t, snapshot.StatusCancelled, info.Status)
				assert.Equal(t, 1, undone)
				<-time.After(2 * time.Hour) // the deaf one returns
			})
		})
	}
}

// If a run is cancelled while the runner is stopping, its compensations are left to the next
// runner.
func TestRunThatIsCancelledDuringShutdownIsCompensatedByTheNextRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, undone := memstore.New(), 0
		undo := func(context.Context) error { undone++; return nil }
		slowly := func(ctx context.Context) error {
			<-ctx.Done()
			<-time.After(2 * time.Second)
			return ctx.Err()
		}
		r := newRunner(t, store, runner.Options{Grace: -1})
		program := registerTrip(r, slowly, undo)
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		time.AfterFunc(time.Second, func() { assert.NoError(t, r.Cancel(t.Context(), "a", snapshot.Stop{By: "ops"})) })
		require.NoError(t, stop())
		assert.Zero(t, undone)

		r = newRunner(t, store, runner.Options{})
		registerTrip(r, slowly, undo)
		defer serve(t, r)()
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
		assert.Equal(t, 1, undone)
	})
}

// unopened is a store that does not answer a request to open a run.
type unopened struct{ snapshot.Store }

func (unopened) Open(ctx context.Context, _ string, _ snapshot.OpenOptions) (snapshot.Journal, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestServeNamesRunsThatAreStillBeingOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, unopened{memstore.New()}, runner.Options{})
		program := runner.Register(r, echo)
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.EqualError(t, stop(), "runner: runs did not stop when they were interrupted: a")
	})
}

// Serve waits for all runs that ignore their context at the same time, not for one after the other.
func TestManyRunsThatIgnoreTheirContextDoNotDelayServe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		release := make(chan struct{})
		program := runner.Register(r, agent("deaf", func(context.Context, word) (string, error) { <-release; return "", nil }))
		stop := serve(t, r)
		for i := range 50 {
			_, err := program.Start(t.Context(), fmt.Sprint("run-", i), word{"x"}, runner.StartOptions{})
			require.NoError(t, err)
		}
		synctest.Wait()
		began := time.Now()
		require.ErrorIs(t, stop(), runner.ErrNotStopped)
		assert.Less(t, time.Since(began), 16*time.Second)
		close(release)
	})
}
