// Package durable writes files that are still there after a power failure.
package durable

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A syncer syncs a file or a directory, as (*os.File).Sync does.
type syncer func(*os.File) error

// WriteFile calls write to write a file that only its owner can read. It replaces an existing file
// only when the new one is complete and synced. When WriteFile returns nil, the new file is durable.
func WriteFile(name string, write func(io.Writer) error) error {
	return writeFile(name, write, (*os.File).Sync)
}

func writeFile(name string, write func(io.Writer) error, sync syncer) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = sync(f)
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncDir(filepath.Dir(name), sync)
}

// MkdirAll creates a directory that only its owner can read, and the missing directories above it.
// When it returns nil, their names are durable.
func MkdirAll(dir string) error { return mkdirAll(dir, (*os.File).Sync) }

func mkdirAll(dir string, sync syncer) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := mkdirAll(parent, sync); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent, sync)
}

// syncDir makes the names in a directory durable. It returns nil if the directory cannot be synced:
// Windows never can, and some file systems cannot either.
func syncDir(dir string, sync syncer) error {
	f, err := os.Open(dir)
	if err == nil {
		err = errors.Join(sync(f), f.Close())
	}
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	return err
}
