package filestore_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// list returns all runs that the filter selects.
func list(t testing.TB, s snapshot.Store, f snapshot.Filter) []snapshot.Info {
	t.Helper()
	page, err := s.List(t.Context(), f)
	require.NoError(t, err)
	return page.Runs
}

// runFiles returns the names of the files in the directory of the run with the ID run, without its
// inbox, which is created only after the run has been open for a while.
func runFiles(t testing.TB, dir string) (files []string) {
	t.Helper()
	for _, name := range names(t, filepath.Join(dir, "runs", "run")) {
		if name != "inbox" {
			files = append(files, name)
		}
	}
	return files
}

func hasSnapshot(t testing.TB, dir string) bool {
	t.Helper()
	for _, name := range runFiles(t, dir) {
		if strings.HasSuffix(name, ".snapshot") {
			return true
		}
	}
	return false
}

func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

func requireRecords(t testing.TB, got []record.Record, n int) {
	t.Helper()
	require.Len(t, got, n)
	want := storetest.Records(1, n)
	for i := range want {
		want[i].RunID = "run"
	}
	for i := range got {
		if got[i].Seq != want[i].Seq || got[i].Address != want[i].Address || !got[i].Time.Equal(want[i].Time) {
			require.Equal(t, want[i], got[i])
		}
	}
	if n > 0 {
		require.Equal(t, want[n-1], got[n-1])
	}
}

// waitingID returns the ID of the answer to the question "waiting".
func waitingID() string {
	m := storetest.Answer("waiting", "true")
	return m.ID()
}

// errLooked ends a Follow, which would otherwise not return.
var errLooked = errors.New("looked")

// seen returns the contents of a directory and the modification time of each file.
func seen(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		all[path] = info.Mode().String() + " " + info.ModTime().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			all[path] += " " + string(data)
		}
		return nil
	}))
	return all
}
