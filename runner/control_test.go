package runner_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// awaitInfo waits until want reports true for the info of a run, and returns the info.
func awaitInfo(t *testing.T, r *runner.Runner, runID string, want func(*snapshot.Info) bool) snapshot.Info {
	t.Helper()
	for e, err := range r.Store().Watch(t.Context(), snapshot.WatchOptions{RunID: runID}) {
		require.NoError(t, err)
		if want(&e.Info) {
			return e.Info
		}
	}
	return snapshot.Info{}
}

// The runs are parked between their attempts, so they are constantly opened and closed. An
// interrupt or a cancel from another process takes effect at any moment.
func TestControlOfRunsThatAreOpenedAndClosedAllTheTime(t *testing.T) {
	r, dir := starter(t) // does not serve
	begin(t, dir)
	for i := range 20 {
		id := fmt.Sprint("run-", i)
		_, err := r.Start(t.Context(), "late", id, word{id}, runner.StartOptions{})
		require.NoError(t, err)
		awaitInfo(t, r, id, func(i *snapshot.Info) bool { return i.Generation > 1 })
		if i%2 == 0 {
			require.NoError(t, r.Interrupt(t.Context(), id, snapshot.Stop{By: "ann", Message: "stop"}))
			info := awaitInfo(t, r, id, func(i *snapshot.Info) bool { return i.Status == snapshot.StatusInterrupted && !i.Open })
			assert.Equal(t, snapshot.Stop{Reason: record.InterruptUser, By: "ann", Message: "stop"}, info.Stop)
			require.ErrorIs(t, r.Interrupt(t.Context(), id, snapshot.Stop{By: "ann", Message: "again"}), state.ErrNotRunning)
		} else {
			require.NoError(t, r.Cancel(t.Context(), id, snapshot.Stop{By: "ann", Message: "stop"}))
			info := awaitInfo(t, r, id, func(i *snapshot.Info) bool { return i.Status == snapshot.StatusCancelled && !i.Open })
			assert.Equal(t, snapshot.Stop{Reason: record.InterruptCancel, By: "ann", Message: "stop"}, info.Stop)
			require.ErrorIs(t, r.Interrupt(t.Context(), id, snapshot.Stop{By: "ann", Message: "again"}), state.ErrNotRunning)
			require.NoError(t, r.Cancel(t.Context(), id, snapshot.Stop{By: "bob", Message: "again"}), "the first cancel counts")
		}
	}
	for i := range 20 { // no run has continued
		info, err := r.Info(t.Context(), fmt.Sprint("run-", i))
		require.NoError(t, err)
		assert.Equal(t, "ann", info.Stop.By)
		waiting, err := r.Store().Messages(t.Context(), info.RunID)
		require.NoError(t, err)
		assert.Empty(t, waiting)
	}
}

// The run is resumed before the other process has stopped it.
func TestRunThatIsBeingInterruptedElsewhereIsResumed(t *testing.T) {
	r, dir := starter(t)
	p := begin(t, dir)
	_, err := r.Start(t.Context(), "hold", "a", word{"a"}, runner.StartOptions{})
	require.NoError(t, err)
	p.Await("holding a")
	for range 4 {
		require.NoError(t, r.Interrupt(t.Context(), "a", snapshot.Stop{By: "ann", Message: "stop"}))
		require.NoError(t, r.Resume(t.Context(), "a"))
		p.Await("holding a")
	}
	require.NoError(t, r.Resume(t.Context(), "a"), "it runs")
	p.Stop()
}

// A cancel is waiting for the run, because the process that closed the run was killed before it
// looked for one.
func TestCancelThatWaitsForAPausedRunIsFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		program := runner.Register(r, agent("nap", func(ctx context.Context, in word) (string, error) {
			return in.Text, core.Sleep(ctx, 24*time.Hour)
		}))
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		defer serve(t, r)()
		sleep(time.Minute)
		require.NoError(t, store.Post(t.Context(), "a", snapshot.Message{Record: record.Record{
			Time: time.Now(), Kind: record.KindRun, Status: record.StatusCancelled,
			Err: &record.InterruptedError{Reason: record.InterruptCancel, By: "ann"},
		}}))
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
		assert.Equal(t, "ann", info.Stop.By)
	})
}

func TestAStopThatIsNotFinishedIsSeenAndKept(t *testing.T) {
	for reason, ask := range map[record.InterruptReason]func(*runner.Runner, context.Context, string, snapshot.Stop) error{
		record.InterruptUser: (*runner.Runner).Interrupt, record.InterruptCancel: (*runner.Runner).Cancel,
	} {
		t.Run(string(reason), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRunner(t, memstore.New(), runner.Options{})
				leave := make(chan struct{})
				program := runner.Register(r, agent("deaf", func(context.Context, word) (string, error) {
					<-leave // the handler ignores its context
					return "", nil
				}))
				_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
				serve(t, r)
				sleep(time.Second)
				stopping := func() *snapshot.Stop {
					info, err := r.Info(t.Context(), "a")
					require.NoError(t, err)
					asked, err := state.Stopping(t.Context(), r.Store(), &info)
					require.NoError(t, err)
					return asked
				}
				assert.Nil(t, stopping())
				require.NoError(t, ask(r, t.Context(), "a", snapshot.Stop{By: "bob", Message: "enough"}))
				assert.Equal(t, &snapshot.Stop{Reason: reason, By: "bob", Message: "enough"}, stopping())
				close(leave)
				synctest.Wait()
				assert.Nil(t, stopping())
				waiting, err := r.Store().Messages(t.Context(), "a")
				require.NoError(t, err)
				assert.Empty(t, waiting)
			})
		})
	}
}

func TestResumeWaitsForARunThatStopsByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		leave, opened := make(chan struct{}), 0
		program := runner.Register(r, agent("stops", func(ctx context.Context, in word) (string, error) {
			if opened++; opened == 1 {
				state.From(ctx).Interrupt(snapshot.Stop{By: "the program", Message: "enough"})
				<-leave
				return "", ctx.Err()
			}
			return in.Text, nil
		}))
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		serve(t, r)
		synctest.Wait()
		stop, err := r.Stopping(t.Context(), "a")
		require.NoError(t, err)
		require.NotNil(t, stop)
		assert.Equal(t, "the program", stop.By)
		resumed := make(chan error, 1)
		go func() { resumed <- r.Resume(t.Context(), "a") }()
		synctest.Wait()
		assert.Empty(t, resumed, "it has not stopped yet")
		close(leave)
		require.NoError(t, <-resumed)
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		stop, err = r.Stopping(t.Context(), "a")
		require.NoError(t, err)
		assert.Nil(t, stop)
		require.ErrorIs(t, r.Interrupt(t.Context(), "a", snapshot.Stop{}), state.ErrEnded)
	})
}

// Requests for a run that is being opened end with their context, even if the store does not answer.
func TestRequestsDoNotOutlastTheirContextWhileARunIsOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, unopened{memstore.New()}, runner.Options{})
		program := runner.Register(r, echo)
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		for name, request := range map[string]func(context.Context) error{
			"Interrupt": func(ctx context.Context) error { return r.Interrupt(ctx, "a", snapshot.Stop{}) },
			"Cancel":    func(ctx context.Context) error { return r.Cancel(ctx, "a", snapshot.Stop{}) },
			"Resume":    func(ctx context.Context) error { return r.Resume(ctx, "a") },
			"Stopping":  func(ctx context.Context) error { _, err := r.Stopping(ctx, "a"); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began := time.Now()
			err := request(ctx)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.ErrorContains(t, err, "it is still being opened", name)
			assert.Equal(t, time.Second, time.Since(began), name)
		}
	})
}
