package runner_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The calling run is interrupted, and is resumed only long after the called run has ended.
func TestRetentionKeepsACalledRunUntilItsCallerHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Retention: runner.Retention{Age: time.Minute, Every: time.Minute}})
		runner.Register(r, agent("child", func(ctx context.Context, in word) (string, error) {
			return in.Text, core.Sleep(ctx, time.Hour)
		}))
		program := runner.Register(r, agent("one", func(ctx context.Context, in word) (string, error) {
			return runner.Call[string](ctx, "child", in)
		}))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{Pinned: true})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, r.Interrupt(t.Context(), "a", snapshot.Stop{}))
		sleep(2 * time.Hour)
		require.NoError(t, r.Resume(t.Context(), "a"))
		waitADay(t, r, "a")
		out, err := program.Result(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "x", out)
		sleep(time.Hour)
		page, err := store.List(t.Context(), snapshot.Filter{})
		require.NoError(t, err)
		assert.Len(t, page.Runs, 1, "the called run is removed")
	})
}

// A turn that has failed is retried while it is archived. It then reads the turns before it.
func TestRetentionKeepsTheTurnsBeforeOneThatIsRetriedMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Retention: runner.Retention{Age: time.Second, Archive: func(ctx context.Context, run *snapshot.Run) error {
			if run.RunID != "ann-0002" {
				return nil
			}
			_, err := state.Retry(ctx, store, run.RunID)
			return err
		}}})
		program := runner.Register(r, agent("turn", func(_ context.Context, in word) (string, error) {
			if in.Text == "fail" {
				return "", core.Permanent(errors.New("down"))
			}
			return in.Text, nil
		}))
		stop := serve(t, r)
		for id, text := range map[string]string{"ann-0001": "x", "other": "x"} {
			_, err := program.Start(t.Context(), id, word{text}, runner.StartOptions{Metadata: snapshot.Metadata{Tags: map[string][]string{"ann-0001": {"conversation:ann"}}[id]}})
			require.NoError(t, err)
		}
		sleep(time.Second)
		_, err := program.Start(t.Context(), "ann-0002", word{"fail"}, runner.StartOptions{Metadata: snapshot.Metadata{Tags: []string{"conversation:ann"}}})
		require.NoError(t, err)
		sleep(2 * time.Minute) // the first search is after a minute
		require.NoError(t, stop())
		_, err = store.Info(t.Context(), "other")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
		for _, id := range []string{"ann-0001", "ann-0002"} {
			_, err = store.Info(t.Context(), id)
			require.NoError(t, err)
		}
	})
}

// Other goroutines read, fork and pin runs while retention removes them.
func TestRetentionDuringReadsForksAndPins(t *testing.T) {
	dir := t.TempDir()
	mine, err := filestore.New(dir)
	require.NoError(t, err)
	theirs, err := filestore.New(dir)
	require.NoError(t, err)
	var seen events
	archive := filepath.Join(t.TempDir(), "archive")
	var once sync.Once
	first := make(chan struct{}) // closed when the first run has been removed
	observe := func(e runner.Notice) {
		if seen.observe(e); e.Type == runner.NoticeRemoved {
			once.Do(func() { close(first) })
		}
	}
	r := newRunner(t, mine, runner.Options{Observe: observe, Retention: runner.Retention{
		Runs: 1, Every: time.Millisecond, Archive: runner.ArchiveTo(archive),
	}})
	program := runner.Register(r, agent("work", func(ctx context.Context, in word) (string, error) {
		for _, name := range []string{"a", "b", "c"} {
			if _, err := core.Step(ctx, name, func(context.Context) (string, error) { return in.Text, nil }); err != nil {
				return "", err
			}
		}
		return in.Text, nil
	}))
	stop := serve(t, r)
	other := newRunner(t, theirs, runner.Options{})
	const n = 36
	gone := func(err error) bool { return errors.Is(err, snapshot.ErrNotFound) }
	var pinned []string
	var forks int
	var others sync.WaitGroup
	reading, done := context.WithCancel(t.Context())
	defer others.Wait()
	defer done()
	others.Go(func() { // reads all runs
		for reading.Err() == nil {
			page, err := theirs.List(t.Context(), snapshot.Filter{})
			if !assert.NoError(t, err) {
				return
			}
			for _, info := range page.Runs {
				if run, err := theirs.Load(t.Context(), info.RunID); err == nil && run.Status == snapshot.StatusCompleted {
					_, err = state.Result[string](t.Context(), theirs, info.RunID)
					assert.True(t, err == nil || gone(err), "%v", err)
				} else if err != nil {
					assert.True(t, gone(err), "%v", err)
				}
				for _, err := range theirs.Records(t.Context(), info.RunID, 2) {
					assert.True(t, err == nil || gone(err), "%v", err)
				}
			}
		}
	})
	for i := range n {
		id := fmt.Sprint("run-", i)
		_, err := program.Start(t.Context(), id, word{id}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), id)
		if !gone(err) {
			require.NoError(t, err)
		}
		switch i % 3 {
		case 0:
			if err := other.Pin(t.Context(), id, true); err == nil {
				pinned = append(pinned, id)
			} else {
				require.ErrorIs(t, err, snapshot.ErrNotFound)
			}
		case 1:
			if err := state.Fork(t.Context(), theirs, id, mustParse(t, "work/step:b"), "fork-"+id, state.ForkOptions{}); err == nil {
				forks++
			} else {
				require.ErrorIs(t, err, snapshot.ErrNotFound)
			}
		}
	}
	<-first
	done()
	others.Wait()
	require.NoError(t, stop())
	for _, e := range seen.of(runner.NoticeTrouble) {
		t.Error(e)
	}
	removed := make(map[string]bool)
	for _, e := range seen.of(runner.NoticeRemoved) {
		assert.False(t, removed[e.RunID], "run %s was removed twice", e.RunID)
		removed[e.RunID] = true
		assert.FileExists(t, filepath.Join(archive, e.RunID+".reprise"))
	}
	page, err := theirs.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	left := 0
	for _, info := range page.Runs {
		run, err := theirs.Load(t.Context(), info.RunID)
		require.NoError(t, err, info.RunID)
		if strings.HasPrefix(info.RunID, "fork-") {
			left++
			assert.Positive(t, run.Len())
		}
	}
	t.Logf("%d removed, %d pinned, %d forked", len(removed), len(pinned), forks)
	assert.Equal(t, forks, left)
	for _, id := range pinned {
		_, err := theirs.Info(t.Context(), id)
		require.NoError(t, err, "the run was pinned")
	}
}

func mustParse(t *testing.T, address string) record.Address {
	t.Helper()
	a, err := record.ParseAddress(address)
	require.NoError(t, err)
	return a
}

// vanishing is a store that removes a run when it is read, as another process might.
type vanishing struct{ *memstore.Store }

func (s vanishing) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if err := s.Store.Delete(ctx, runID); err != nil {
		return nil, err
	}
	return s.Store.Load(ctx, runID)
}

func TestRunThatAnotherProcessRemovesIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		r := newRunner(t, vanishing{memstore.New()}, runner.Options{Observe: seen.observe, Retention: runner.Retention{Bytes: 1}})
		program := runner.Register(r, echo)
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		sleep(time.Hour)
		_, err = r.Info(t.Context(), "a")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
		assert.Empty(t, seen.of(runner.NoticeTrouble))
	})
}

func TestRetentionThatIsStoppedIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		archiving := make(chan struct{})
		r := newRunner(t, memstore.New(), runner.Options{Observe: seen.observe, Retention: runner.Retention{
			Age: time.Minute, Archive: func(ctx context.Context, _ *snapshot.Run) error {
				close(archiving) // archive the run only once
				<-ctx.Done()
				return context.Cause(ctx)
			},
		}})
		program := runner.Register(r, echo)
		stop := serve(t, r)
		for _, id := range []string{"a", "b"} {
			_, err := program.Start(t.Context(), id, word{"x"}, runner.StartOptions{})
			require.NoError(t, err)
		}
		<-archiving
		require.NoError(t, stop())
		assert.Empty(t, seen.of(runner.NoticeTrouble))
		assert.Empty(t, seen.of(runner.NoticeRemoved))
	})
}

// A slowDeleter is a store that takes a minute to delete a run.
type slowDeleter struct{ snapshot.Store }

func (s slowDeleter) Delete(ctx context.Context, runID string) error {
	sleep(time.Minute)
	return s.Store.Delete(ctx, runID)
}

// TestRetentionKeepsUpWithRunsThatEnd checks that runs are removed concurrently, and that the time
// that it takes to remove them does not delay the next search.
func TestRetentionKeepsUpWithRunsThatEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen events
		r := newRunner(t, slowDeleter{memstore.New()}, runner.Options{Observe: seen.observe, Retention: runner.Retention{
			Age: time.Second, Every: 10 * time.Minute,
		}})
		program := runner.Register(r, agent("work", func(_ context.Context, in word) (string, error) { return in.Text, nil }))
		stop := serve(t, r)
		start := func(from, to int) {
			for i := from; i < to; i++ {
				_, err := program.Start(t.Context(), fmt.Sprint("run-", i), word{}, runner.StartOptions{})
				require.NoError(t, err)
			}
		}
		start(0, 32)
		sleep(4 * time.Minute) // the first search comes after a minute; each round of removals takes a minute
		assert.Len(t, seen.of(runner.NoticeRemoved), 32)
		start(32, 64)
		sleep(12 * time.Minute)
		assert.Len(t, seen.of(runner.NoticeRemoved), 64)
		require.NoError(t, stop())
	})
}
