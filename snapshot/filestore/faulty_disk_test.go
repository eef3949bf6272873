package filestore_test

import (
	"errors"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

// A faultyDisk makes an operation on a file fail if the function for that operation returns an
// error for the file's name.
type faultyDisk struct {
	filestore.Disk
	open, create, write, sync, synced, rename, syncDir func(name string) error
	syncs, writes                                      atomic.Int64
}

func newFaultyDisk() *faultyDisk {
	fine := func(string) error { return nil }
	return &faultyDisk{Disk: fastDisk{filestore.OSDisk}, open: fine, create: fine, write: fine, sync: fine, synced: fine, rename: fine, syncDir: fine}
}

func (d *faultyDisk) Open(name string) (filestore.OpenFile, int64, error) {
	if err := d.open(filepath.Base(name)); err != nil {
		return nil, 0, err
	}
	return d.Disk.Open(name)
}

func (d *faultyDisk) Create(name string) (filestore.DiskFile, error) {
	if err := d.create(filepath.Base(name)); err != nil {
		return nil, err
	}
	f, err := d.Disk.Create(name)
	return &faultyFile{f, d, strings.TrimSuffix(filepath.Base(name), ".tmp")}, err
}

func (d *faultyDisk) OpenToWrite(name string) (filestore.DiskFile, error) {
	if err := d.open(filepath.Base(name)); err != nil {
		return nil, err
	}
	f, err := d.Disk.OpenToWrite(name)
	return &faultyFile{f, d, filepath.Base(name)}, err
}

func (d *faultyDisk) Rename(from, to string) error {
	if err := d.rename(filepath.Base(to)); err != nil {
		return err
	}
	return d.Disk.Rename(from, to)
}

func (d *faultyDisk) SyncDir(name string) error {
	if err := d.syncDir(filepath.Base(name)); err != nil {
		return err
	}
	return d.Disk.SyncDir(name)
}

type faultyFile struct {
	filestore.DiskFile
	disk *faultyDisk
	name string
}

// WriteAt writes half of the data if it has to fail, like a full disk.
func (f *faultyFile) WriteAt(data []byte, offset int64) (int, error) {
	f.disk.writes.Add(1)
	if err := f.disk.write(f.name); err != nil {
		n, _ := f.DiskFile.WriteAt(data[:len(data)/2], offset)
		if errors.Is(err, errShort) {
			err = nil
		}
		return n, err
	}
	return f.DiskFile.WriteAt(data, offset)
}

func (f *faultyFile) Sync() error {
	f.disk.syncs.Add(1)
	if err := f.disk.sync(f.name); err != nil {
		return err
	}
	if err := f.DiskFile.Sync(); err != nil {
		return err
	}
	return f.disk.synced(f.name)
}

var errShort = errors.New("a short write")
