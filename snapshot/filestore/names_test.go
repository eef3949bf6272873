package filestore_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestRunsWhoseIDsDifferInCaseOnlyAreDifferentRuns(t *testing.T) {
	dir := t.TempDir()
	s := newFileStore(t, dir)
	ids := []string{"run", "Run", "rUn", "RUN", "RUn", "ruN"}
	for n, id := range ids {
		j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
		require.NoError(t, err)
		require.NoError(t, j.Append(storetest.Records(1, n+1)...))
		require.NoError(t, closeAs(j, snapshot.StatusPaused))
	}
	dirs, err := filepath.Glob(filepath.Join(dir, "runs", "*"))
	require.NoError(t, err)
	require.Len(t, dirs, len(ids))
	folded := make(map[string]bool)
	for _, name := range dirs {
		folded[strings.ToLower(name)] = true
	}
	require.Len(t, folded, len(ids), "the names also differ if case is ignored: %v", dirs)
	for n, id := range ids {
		sn := load(t, s, id)
		require.Equal(t, id, sn.RunID)
		require.Len(t, sn.Records, n+1)
	}
	require.NoError(t, s.Delete(t.Context(), "Run"))
	page, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	var left []string
	for _, run := range page.Runs {
		left = append(left, run.RunID)
	}
	require.ElementsMatch(t, []string{"run", "rUn", "RUN", "RUn", "ruN"}, left)
}

func TestEveryIDIsTheNameOfADirectory(t *testing.T) {
	s := newFileStore(t, t.TempDir())
	seen := make(map[string]string)
	for _, id := range []string{
		"a", "A", "0", "_", "_-", "a.b", "A.B", "aB", "Ab", "AB", "A-1", "a-1", "A-", "A0", "0A",
		strings.Repeat("a", 128), strings.Repeat("A", 128), strings.Repeat("A", 127) + "a", "a" + strings.Repeat("A", 127),
		strings.Repeat("A", 127) + "-", strings.Repeat("aA", 64), strings.Repeat("0", 128),
	} {
		name := filestore.DirName(id)
		require.LessOrEqual(t, len(name), 255, id)
		require.Equal(t, strings.ToLower(name), name)
		require.Empty(t, seen[name], "%s has the directory of another run", id)
		seen[name] = id
		back, ok := filestore.RunIDOf(name)
		require.True(t, ok, "%s in %s", id, name)
		require.Equal(t, id, back)
		j, err := s.Open(t.Context(), id, snapshot.OpenOptions{Create: true})
		require.NoError(t, err, id)
		require.NoError(t, closeAs(j, snapshot.StatusPaused))
		require.NoError(t, s.Delete(t.Context(), id), id)
	}
}

func TestDirectoriesWithOtherNamesAreNotRuns(t *testing.T) {
	names := []string{"", "A", "Run", "+", "a+", "++", "+++a", "++1", "+1", "a+-", "+A", "++A", ".a", "a b", "a/b", strings.Repeat("a", 129)}
	require.Empty(t, slices.DeleteFunc(names, func(name string) bool {
		_, ok := filestore.RunIDOf(name)
		return !ok
	}))
}

func TestAFileWithTheHighestNumberDoesNotHideWhatComesAfterIt(t *testing.T) {
	for _, number := range []string{"18446744073709551615", "9007199254740992"} {
		for _, kind := range []string{".journal", ".snapshot"} {
			dir := t.TempDir()
			s := newFileStore(t, dir)
			j := begin(t, s)
			require.NoError(t, j.Append(storetest.Records(1, 3)...))
			filestore.Abandon(j)
			journal, err := os.ReadFile(filepath.Join(dir, "runs", "run", "00000001.journal"))
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run", number+kind), journal, 0o600))
			j = begin(t, s)
			requireStored(t, j.Restored(), 3)
			require.NoError(t, j.Append(storetest.Records(4, 3)...))
			require.NoError(t, closeAs(j, snapshot.StatusCompleted))
			run, err := s.Load(t.Context(), "run")
			require.NoError(t, err)
			requireStored(t, run, 6)
		}
	}
}
