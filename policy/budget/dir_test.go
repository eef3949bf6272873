package budget_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/policy/budget"
)

func TestDirAddsUpOverProcesses(t *testing.T) {
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

// A crash cuts off the last line, which was not booked yet.
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
	require.ErrorContains(t, err, `budget: account "a": its file has a line of account "b"`)
}
