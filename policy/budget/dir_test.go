package budget_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/policy/budget"
)

func TestDirAddsUpAcrossProcesses(t *testing.T) {
	path := t.TempDir()
	dirs := []*budget.Dir{openDir(t, path), openDir(t, path)} // as in two processes
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			_, err := dirs[i%2].Add(t.Context(), "a/b\nc", budget.Amount{Calls: 1, Tokens: -2, Cost: 0.5})
			assert.NoError(t, err)
		})
	}
	all.Wait()
	for _, dir := range append(dirs, openDir(t, path)) {
		sum, err := dir.Add(t.Context(), "a/b\nc", budget.Amount{})
		require.NoError(t, err)
		assert.Equal(t, budget.Amount{Calls: 20, Tokens: -40, Cost: 10}, sum)
	}
	sum, err := dirs[0].Add(t.Context(), "other", budget.Amount{})
	require.NoError(t, err)
	assert.True(t, sum.IsZero())
}

// A crash may cut off the last line. Its amount does not count.
func TestDirReadsPastALineThatWasCutOff(t *testing.T) {
	path := t.TempDir()
	dir := openDir(t, path)
	_, err := dir.Add(t.Context(), "a", budget.Amount{Calls: 1})
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(path, "*.account"))
	require.NoError(t, err)
	require.Len(t, files, 1)
	whole, err := os.ReadFile(files[0])
	require.NoError(t, err)
	for cut := range len(whole) {
		require.NoError(t, os.WriteFile(files[0], append(whole[:len(whole):len(whole)], whole[:cut]...), 0o600))
		again := openDir(t, path)
		_, err := again.Add(t.Context(), "a", budget.Amount{Calls: 10})
		require.NoError(t, err)
		sum, err := openDir(t, path).Add(t.Context(), "a", budget.Amount{})
		require.NoError(t, err)
		want := int64(11)
		if cut == len(whole)-1 { // everything except the line break
			want = 12
		}
		assert.Equal(t, want, sum.Calls, "cut at %d", cut)
	}
	_, err = dir.Add(t.Context(), "a", budget.Amount{})
	require.NoError(t, err)
}

func TestDirRefusesTheFileOfAnotherAccount(t *testing.T) {
	path := t.TempDir()
	dir := openDir(t, path)
	_, err := dir.Add(t.Context(), "a", budget.Amount{Calls: 1})
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(path, "*.account"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(files[0], []byte("\n{\"account\":\"b\",\"calls\":1}\n"), 0o600))
	_, err = openDir(t, path).Add(t.Context(), "a", budget.Amount{})
	require.ErrorContains(t, err, `budget: account "a": its file contains a line for account "b"`)
}

func TestPruneRemovesAccountsThatAreNoLongerUsed(t *testing.T) {
	path := t.TempDir()
	dir, other := openDir(t, path), openDir(t, path) // as in two processes
	for _, account := range []string{"yesterday", "today"} {
		_, err := dir.Add(t.Context(), account, budget.Amount{Calls: 3})
		require.NoError(t, err)
		_, err = other.Add(t.Context(), account, budget.Amount{})
		require.NoError(t, err)
	}
	foreign := filepath.Join(path, "notes.account")
	require.NoError(t, os.WriteFile(foreign, nil, 0o600))
	longAgo := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(foreign, longAgo, longAgo))
	require.NoError(t, os.Chtimes(fileOf(t, path, "yesterday"), longAgo, longAgo))

	removed, err := dir.Prune(t.Context(), time.Now().Add(-24*time.Hour))
	require.NoError(t, err)
	assert.Equal(t, 1, removed)
	assert.FileExists(t, foreign)
	for name, d := range map[string]*budget.Dir{"dir": dir, "other": other} {
		sum, err := d.Add(t.Context(), "today", budget.Amount{})
		require.NoError(t, err, name)
		assert.EqualValues(t, 3, sum.Calls, name)
	}
	sum, err := dir.Add(t.Context(), "yesterday", budget.Amount{Calls: 1})
	require.NoError(t, err)
	assert.EqualValues(t, 1, sum.Calls, "the account begins again")
	sum, err = other.Add(t.Context(), "yesterday", budget.Amount{Calls: 1})
	require.NoError(t, err)
	assert.EqualValues(t, 2, sum.Calls, "the other process starts from zero, too")
}

// fileOf returns the path of the account's file.
func fileOf(t *testing.T, dir, account string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.account"))
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(data), `"account":"`+account+`"`) {
			return file
		}
	}
	require.Fail(t, "no file of account "+account)
	return ""
}
