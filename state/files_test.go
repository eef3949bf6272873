package state_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// Tests of runs that are stored in a directory.

// contents returns the files of a directory with their contents and modification times.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		data := []byte(nil)
		if !e.IsDir() {
			data, err = os.ReadFile(path)
			require.NoError(t, err)
		}
		all[path] = info.ModTime().String() + string(data)
		return nil
	}))
	return all
}

func TestForkLeavesTheFilesOfTheOldRunAsTheyWere(t *testing.T) {
	dir := t.TempDir()
	s, err := filestore.New(dir)
	require.NoError(t, err)
	ran := 0
	agent := agentOf(tryOnce, func(ctx context.Context) (string, error) {
		if _, err := execute(ctx, toolOf("first", tryOnce, succeed)); err != nil {
			return "", err
		}
		return execute(ctx, toolOf("second", tryOnce, func(context.Context) (string, error) { ran++; return "", nil }))
	})
	_, err = run(t, s, func(ctx context.Context) (string, error) { return execute(ctx, agent) })
	require.NoError(t, err)
	before := contents(t, filepath.Join(dir, "runs", runID))
	at, err := record.ParseAddress("a/second")
	require.NoError(t, err)
	require.NoError(t, state.Fork(t.Context(), s, runID, at, "fork", state.ForkOptions{}))
	st, err := state.Open(t.Context(), s, "fork")
	require.NoError(t, err)
	_, err = execute(st.Context(t.Context()), agent)
	require.NoError(t, err)
	require.NoError(t, st.Close())
	assert.Equal(t, 2, ran)
	assert.Equal(t, before, contents(t, filepath.Join(dir, "runs", runID)))
}

func TestRunWhoseContextWasCancelledContinues(t *testing.T) {
	s, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ran := 0
	agent := agentOf(tryOnce, func(ctx context.Context) (string, error) {
		if _, err := execute(ctx, toolOf("first", tryOnce, func(context.Context) (string, error) { ran++; return "", nil })); err != nil {
			return "", err
		}
		cancel()
		return execute(ctx, toolOf("second", tryOnce, func(context.Context) (string, error) { return "done", nil }))
	})
	st, err := state.Open(t.Context(), s, runID)
	require.NoError(t, err)
	_, err = execute(st.Context(ctx), agent)
	require.ErrorIs(t, err, core.ErrInterrupted)
	require.NoError(t, st.Close())
	assert.Equal(t, snapshot.StatusInterrupted, st.Status())
	out, err := run(t, s, func(ctx context.Context) (string, error) { return execute(ctx, agent) })
	require.NoError(t, err)
	assert.Equal(t, "done", out)
	assert.Equal(t, 1, ran)
}

// unsyncing is a store whose journals fail to sync from some point on.
type unsyncing struct {
	snapshot.Store
	broken *atomic.Bool
}

type unsyncingJournal struct {
	snapshot.Journal
	broken *atomic.Bool
}

func (s unsyncing) Open(ctx context.Context, id string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, id, o)
	return unsyncingJournal{j, s.broken}, err
}

var errIO = errors.New("input/output error")

func (j unsyncingJournal) Sync(ctx context.Context, seq uint64) error {
	if j.broken.Load() {
		return errIO
	}
	return j.Journal.Sync(ctx, seq)
}

func TestOutcomeThatIsNotSyncedStopsTheRunAndWhatCameBeforeStays(t *testing.T) {
	files, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	s := unsyncing{files, new(atomic.Bool)}
	ran := make(map[string]int)
	count := func(name string) handler {
		return func(context.Context) (string, error) {
			ran[name]++
			s.broken.Store(name == "second" && ran[name] == 1)
			return name, nil
		}
	}
	agent := agentOf(tryOnce, func(ctx context.Context) (string, error) {
		for _, name := range []string{"first", "second", "third"} {
			if _, err := execute(ctx, toolOf(name, tryOnce, count(name))); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	st, err := state.Open(t.Context(), s, runID)
	require.NoError(t, err)
	_, err = execute(st.Context(t.Context()), agent)
	require.ErrorIs(t, err, state.ErrStore)
	require.ErrorIs(t, err, errIO)
	require.ErrorIs(t, err, core.ErrInterrupted)
	assert.Equal(t, record.InterruptStore, st.Interrupted().Reason)
	st.Close()
	assert.Equal(t, map[string]int{"first": 1, "second": 1}, ran, "no tool runs after the failed sync")

	s.broken.Store(false)
	out, err := run(t, s, func(ctx context.Context) (string, error) { return execute(ctx, agent) })
	require.NoError(t, err)
	assert.Equal(t, "done", out)
	assert.Equal(t, 1, ran["first"])
	assert.Equal(t, 1, ran["third"])
}
