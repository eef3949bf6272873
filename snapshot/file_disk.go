package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// disk is what the stores do to files. Tests put one in between that fails,
// or stops as a crash would. Reading goes past it.
type disk interface {
	Create(name string) (diskFile, error) // empty, 0600, for writing
	Rename(from, to string) error
	Link(from, to string) error // another name, which must be free, for the same file
	Remove(name string) error
	Mkdir(name string) error   // 0700; fine if it is there
	SyncDir(name string) error // the names in it survive the power
}

// diskFile is a file that is written from its beginning to its end.
type diskFile interface {
	Write(data []byte) (int, error)
	Sync() error // what was written survives the power
	Close() error
}

// osDisk is the disk of the operating system.
type osDisk struct{}

func (osDisk) Create(name string) (diskFile, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Remove(name string) error { return os.Remove(name) }

func (osDisk) Link(from, to string) error { return os.Link(from, to) }

func (osDisk) Mkdir(name string) error {
	err := os.Mkdir(name, 0o700)
	if stat, found := os.Stat(name); errors.Is(err, fs.ErrExist) && found == nil && stat.IsDir() {
		return nil
	}
	return err
}

func (osDisk) SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// writeSynced writes a file that has survived the power when it returns,
// though its name has not. What it could not finish it removes.
func writeSynced(d disk, name string, data []byte) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	if err = write(f, data); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = remove(d, name)
	}
	return err
}

// write makes a short write an error.
func write(f diskFile, data []byte) error {
	n, err := f.Write(data)
	if err == nil && n < len(data) {
		err = fmt.Errorf("%d of %d bytes written", n, len(data))
	}
	return err
}

// remove removes a file that may be gone already.
func remove(d disk, name string) error {
	if err := d.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeDir makes the directory of a store. The one that it is in may be closed
// to us, so that its name cannot always be synced.
func makeDir(d disk, name string) error {
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if err := os.MkdirAll(name, 0o700); err != nil {
		return err
	}
	_ = d.SyncDir(filepath.Dir(name))
	return nil
}

// mkdirSynced makes a directory in one that is there, whose name survives the
// power.
func mkdirSynced(d disk, name string) error {
	if err := d.Mkdir(name); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(name))
}
