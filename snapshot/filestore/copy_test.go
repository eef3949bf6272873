package filestore_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
)

// filesOf returns the files of the run, by name.
func filesOf(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, name := range runFiles(t, dir) {
		data, err := os.ReadFile(filepath.Join(dir, "runs", "run", name))
		require.NoError(t, err)
		files[name] = data
	}
	return files
}

// A copy made while the run is being written contains some files from before a change and others
// from after it. Such a copy is either damaged or equal to the run at some earlier time: records
// may be missing, but those it has are unchanged, and its status matches them.
func TestACopyOfARunThatWasBeingWrittenIsAnOlderOneOrDamaged(t *testing.T) {
	whole, damaged := 0, 0
	for shape, build := range shapes {
		for _, name := range []string{"it continues", "it continues and is compacted", "it crashes", "it crashes and continues"} {
			r := &changingRun{dir: memoryDir(t)}
			build(t, r, "old", snapshot.StatusPaused)
			before := filesOf(t, r.dir)
			changes[name](t, r)
			after := filesOf(t, r.dir)
			_, last := currentState(t, r.dir)
			for _, files := range mixtures(before, after) {
				dir := memoryDir(t)
				require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "run"), 0o700))
				for name, data := range files {
					require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", name), data, 0o600))
				}
				s := notCompacting(t, dir)
				run, err := s.Load(t.Context(), "run")
				if errors.Is(err, snapshot.ErrCorrupt) || errors.Is(err, snapshot.ErrNotFound) {
					damaged++
					continue
				}
				require.NoError(t, err)
				whole++
				_, records := currentState(t, dir)
				require.Equal(t, last[:min(len(records), len(last))], records)
				require.True(t, run.Status != snapshot.StatusCompleted || len(records) == len(last), "%s, %s: the copy is completed with the records %v", shape, name, records)
				info, err := s.Info(t.Context(), "run")
				require.NoError(t, err)
				require.Equal(t, run.Status, info.Status)
			}
		}
	}
	t.Logf("%d copies are whole, and %d are damaged", whole, damaged)
	require.Positive(t, whole)
	require.Positive(t, damaged)
}

// mixtures returns all combinations of files from before and files from after.
func mixtures(before, after map[string][]byte) (all []map[string][]byte) {
	both := maps.Clone(before)
	maps.Copy(both, after)
	names := slices.Sorted(maps.Keys(both))
	for set := range 1 << len(names) {
		files := make(map[string][]byte)
		for i, name := range names {
			from := after
			if set>>i&1 > 0 {
				from = before
			}
			if data, ok := from[name]; ok {
				files[name] = data
			}
		}
		all = append(all, files)
	}
	return all
}
