package cache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func keyOf(n int) string { return fmt.Sprintf("%064x", n) }

func TestMemoryDropsWhatWasUsedLongestAgo(t *testing.T) {
	m := NewMemory(3 * (100 + entryBytes))
	for i := range 3 {
		require.NoError(t, m.Put(t.Context(), keyOf(i), make([]byte, 100), time.Time{}))
	}
	has := func(i int) bool {
		_, ok, err := m.Get(t.Context(), keyOf(i))
		require.NoError(t, err)
		return ok
	}
	assert.True(t, has(0)) // value 0 is now more recently used than value 1
	require.NoError(t, m.Put(t.Context(), keyOf(3), make([]byte, 100), time.Time{}))
	assert.Equal(t, []bool{true, false, true, true}, []bool{has(0), has(1), has(2), has(3)})
	require.NoError(t, m.Put(t.Context(), keyOf(2), make([]byte, 10_000), time.Time{}))
	assert.False(t, has(2), "a value larger than the limit is not stored")
	require.NoError(t, m.Delete(t.Context(), keyOf(0)))
	require.NoError(t, m.Delete(t.Context(), keyOf(3)))
	assert.Zero(t, m.bytes)
	assert.Zero(t, m.used.Len())
}

func openDir(t *testing.T) (*Dir, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cache")
	d, err := OpenDir(path)
	require.NoError(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d, path
}

func TestDirKeepsValuesAcrossProcesses(t *testing.T) {
	d, path := openDir(t)
	require.NoError(t, d.Put(t.Context(), keyOf(1), []byte("one"), time.Now().Add(time.Hour)))
	require.NoError(t, d.Put(t.Context(), keyOf(1), []byte("uno"), time.Time{}))
	again, err := OpenDir(path)
	require.NoError(t, err)
	value, ok, err := again.Get(t.Context(), keyOf(1))
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "uno", string(value))
	require.NoError(t, again.Delete(t.Context(), keyOf(1)))
	_, ok, err = again.Get(t.Context(), keyOf(1))
	require.NoError(t, err)
	assert.False(t, ok)
	require.NoError(t, again.Close())
}

func TestDirTreatsADamagedFileAsMissing(t *testing.T) {
	d, path := openDir(t)
	require.NoError(t, d.Put(t.Context(), keyOf(1), []byte("one"), time.Time{}))
	file := filepath.Join(path, keyOf(1)[:2], keyOf(1)[2:])
	require.NoError(t, os.WriteFile(file, []byte("torn"), 0o600))
	_, ok, err := d.Get(t.Context(), keyOf(1))
	require.ErrorIs(t, err, errDamaged)
	assert.False(t, ok)
	_, ok, err = d.Get(t.Context(), keyOf(1))
	require.NoError(t, err, "a damaged file is deleted")
	assert.False(t, ok)
}

func TestDirRefusesOtherKeys(t *testing.T) {
	d, _ := openDir(t)
	for _, key := range []string{"", "../../etc/passwd", strings.Repeat("z", 64), strings.Repeat("A", 64), keyOf(1) + "00"} {
		assert.ErrorContains(t, d.Put(t.Context(), key, nil, time.Time{}), "64 hexadecimal digits")
	}
}

func TestDirFollowsNoLinkOutOfIt(t *testing.T) {
	d, path := openDir(t)
	outside := t.TempDir()
	require.NoError(t, os.Symlink(outside, filepath.Join(path, keyOf(1)[:2])))
	require.Error(t, d.Put(t.Context(), keyOf(1), []byte("one"), time.Time{}))
	entries, err := os.ReadDir(outside)
	require.NoError(t, err)
	assert.Empty(t, entries)
}

func TestPurgeDeletesExpiredAndDamagedFiles(t *testing.T) {
	d, path := openDir(t)
	require.NoError(t, d.Put(t.Context(), keyOf(1), []byte("over"), time.Now().Add(-time.Second)))
	require.NoError(t, d.Put(t.Context(), keyOf(2), []byte("kept"), time.Now().Add(time.Hour)))
	folder := filepath.Join(path, keyOf(1)[:2])
	left, fresh, other := filepath.Join(folder, "x"+tempSuffix), filepath.Join(folder, "y"+tempSuffix), filepath.Join(path, "README")
	for _, name := range []string{left, fresh, other} {
		require.NoError(t, os.WriteFile(name, nil, 0o600))
	}
	require.NoError(t, os.Chtimes(left, time.Time{}, time.Now().Add(-2*time.Hour)))
	deleted, err := d.Purge(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 2, deleted)
	assert.FileExists(t, fresh)
	assert.FileExists(t, other)
	assert.NoFileExists(t, left)
	_, ok, err := d.Get(t.Context(), keyOf(2))
	require.NoError(t, err)
	assert.True(t, ok)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = d.Purge(ended)
	require.ErrorIs(t, err, context.Canceled)
}

func FuzzDecode(f *testing.F) {
	f.Add(encode([]byte("value"), time.Unix(1, 2)))
	f.Add(encode(nil, time.Time{}))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, file []byte) {
		value, until, err := decode(file)
		if err != nil {
			return
		}
		if !until.IsZero() || len(file) >= headerBytes && string(file[4:headerBytes]) == "\x00\x00\x00\x00\x00\x00\x00\x00" {
			assert.Equal(t, file, encode(value, until))
		}
	})
}
