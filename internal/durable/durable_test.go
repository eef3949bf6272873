package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// observed returns a syncer that first calls do with the name of the file or directory.
func observed(do func(name string) error) syncer {
	return func(f *os.File) error {
		if err := do(f.Name()); err != nil {
			return err
		}
		return f.Sync()
	}
}

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

func TestDirectoryIsSyncedAfterTheFileHasItsName(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	var synced []string
	sync := observed(func(what string) error {
		if what == dir {
			assert.FileExists(t, name)
			what = "directory"
		} else {
			assert.NoFileExists(t, name)
			what = "file"
		}
		synced = append(synced, what)
		return nil
	})
	require.NoError(t, writeFile(name, text("hello"), sync))
	assert.Equal(t, []string{"file", "directory"}, synced)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "hello", string(data))
	stat, err := os.Stat(name)
	require.NoError(t, err)
	assert.Equal(t, fs.FileMode(0o600), stat.Mode().Perm())
}

func TestFileIsKeptIfTheNewOneCannotBeWritten(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	require.NoError(t, WriteFile(name, text("old")))
	down := errors.New("down")
	require.ErrorIs(t, WriteFile(name, func(io.Writer) error { return down }), down)
	fails := observed(func(string) error { return syscall.EIO })
	require.ErrorIs(t, writeFile(name, text("new"), fails), syscall.EIO)
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.Equal(t, "old", string(data))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Len(t, entries, 1, "the unfinished file is removed")
}

func TestNamesOfNewDirectoriesAreSynced(t *testing.T) {
	dir := t.TempDir()
	var synced []string
	sync := observed(func(name string) error {
		synced = append(synced, name)
		return syscall.EINVAL // the file system cannot sync directories
	})
	require.NoError(t, mkdirAll(filepath.Join(dir, "a", "b"), sync))
	assert.Equal(t, []string{dir, filepath.Join(dir, "a")}, synced)
	require.NoError(t, mkdirAll(filepath.Join(dir, "a", "b"), sync))
	assert.Len(t, synced, 2)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	require.Error(t, MkdirAll(filepath.Join(dir, "file", "a")))
}
