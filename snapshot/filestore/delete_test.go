package filestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// ended stores completed runs, each with a message in its inbox.
func ended(t testing.TB, s *filestore.Store, n int) (ids []string) {
	t.Helper()
	for k := range n {
		id := fmt.Sprintf("run-%d", k)
		j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(storetest.Records(1, 3)...))
		require.NoError(t, closeAs(j, snapshot.StatusCompleted))
		require.NoError(t, s.Post(t.Context(), id, storetest.Answer("refund", "true")))
		ids = append(ids, id)
	}
	return ids
}

// requireNothingLeft requires that a store has no runs and no remains of runs.
func requireNothingLeft(t testing.TB, dir string) {
	t.Helper()
	for _, name := range []string{"runs", "trash"} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Empty(t, entries, name)
	}
}

// beaten reports whether err means that another caller is deleting or has deleted the run.
func beaten(err error) bool {
	return errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, snapshot.ErrLocked)
}

func TestOneOfManyConcurrentDeletesSucceeds(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	for range 20 {
		ids := ended(t, s, 4)
		var mu sync.Mutex
		var wait sync.WaitGroup
		deleted := make(map[string]int)
		for n := range 12 {
			wait.Go(func() {
				for k := range ids {
					id := ids[(k+n)%len(ids)]
					err := s.Delete(t.Context(), id)
					mu.Lock()
					if err == nil {
						deleted[id]++
					} else if !beaten(err) {
						t.Errorf("%s: %v", id, err)
					}
					mu.Unlock()
				}
			})
		}
		wait.Wait()
		for _, id := range ids {
			require.Equal(t, 1, deleted[id], id)
		}
		requireNothingLeft(t, dir)
	}
}

func TestRunsAreDeletedAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	var wait sync.WaitGroup
	for _, id := range ended(t, s, 40) {
		wait.Go(func() {
			if err := s.Delete(t.Context(), id); err != nil {
				t.Errorf("%s: %v", id, err)
			}
		})
	}
	wait.Wait()
	requireNothingLeft(t, dir)
}

// TestDeletingProcess runs in the processes that the next test starts.
func TestDeletingProcess(t *testing.T) {
	dir := os.Getenv("REPRISE_TEST_DELETE")
	if dir == "" {
		t.Skip("only for TestConcurrentProcessesDeleteEachRunOnce")
	}
	s := newFileStore(t, dir)
	for _, id := range strings.Fields(os.Getenv("REPRISE_TEST_RUNS")) {
		if err := s.Delete(t.Context(), id); err == nil {
			fmt.Println("deleted", id)
		} else if !beaten(err) {
			t.Error(err)
		}
	}
}

func TestConcurrentProcessesDeleteEachRunOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ids := ended(t, newFileStore(t, dir), 60)
	processes := make([]*exec.Cmd, 4)
	outputs := make([]bytes.Buffer, len(processes))
	for n := range processes {
		p := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestDeletingProcess$")
		p.Env = append(os.Environ(), "REPRISE_TEST_DELETE="+dir, "REPRISE_TEST_RUNS="+strings.Join(ids, " "))
		p.Stdout, p.Stderr = &outputs[n], &outputs[n]
		require.NoError(t, p.Start())
		processes[n] = p
	}
	deleted := make(map[string]int)
	for n, p := range processes {
		require.NoError(t, p.Wait(), outputs[n].String())
		for line := range strings.Lines(outputs[n].String()) {
			if id, ok := strings.CutPrefix(strings.TrimSpace(line), "deleted "); ok {
				deleted[id]++
			}
		}
	}
	require.Len(t, deleted, len(ids))
	for id, n := range deleted {
		require.Equal(t, 1, n, id)
	}
	requireNothingLeft(t, dir)
}

func TestRunDeletedWhileMessagesComeIsGoneCompletely(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := newFileStore(t, dir)
	for range 20 {
		id := ended(t, s, 1)[0]
		var wait sync.WaitGroup
		for n := range 4 {
			wait.Go(func() {
				for k := range 5 {
					err := s.Post(t.Context(), id, storetest.Answer(fmt.Sprintf("question %d %d", n, k), "true"))
					if err != nil && !errors.Is(err, snapshot.ErrNotFound) {
						t.Error(err)
					}
					_, err = s.Update(t.Context(), id, func(info *snapshot.Info) error { info.Pinned = !info.Pinned; return nil })
					if err != nil && !beaten(err) {
						t.Error(err)
					}
				}
			})
		}
		for {
			err := s.Delete(t.Context(), id)
			if err == nil {
				break
			}
			require.ErrorIs(t, err, snapshot.ErrLocked, "the run is being updated")
		}
		wait.Wait()
		requireNothingLeft(t, dir)
	}
}
