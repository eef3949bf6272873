package filestore_test

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

// A failingDisk makes a number of consecutive system calls fail.
type failingDisk struct {
	filestore.Disk
	from, times int // number of the first call that fails, counted from 1; number of failures
	err         error

	mu     sync.Mutex
	calls  int
	kinds  map[string]int
	failed []string
}

func (d *failingDisk) call(kind, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kinds == nil {
		d.kinds = make(map[string]int)
	}
	d.calls++
	d.kinds[kind]++
	if d.calls < d.from || d.calls >= d.from+d.times {
		return nil
	}
	d.failed = append(d.failed, kind+" "+filepath.Base(name))
	return &fs.PathError{Op: kind, Path: name, Err: d.err}
}

func (d *failingDisk) Open(name string) (filestore.OpenFile, int64, error) {
	if err := d.call("open", name); err != nil {
		return nil, 0, err
	}
	f, size, err := d.Disk.Open(name)
	if err != nil {
		return nil, 0, err
	}
	return failingReader{f, d, name}, size, nil
}

func (d *failingDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	if err := d.call("readdir", name); err != nil {
		return nil, err
	}
	return d.Disk.ReadDir(name)
}

func (d *failingDisk) Create(name string) (filestore.DiskFile, error) {
	if err := d.call("create", name); err != nil {
		return nil, err
	}
	f, err := d.Disk.Create(name)
	if err != nil {
		return nil, err
	}
	return failingFile{f, d, name}, nil
}

func (d *failingDisk) OpenToWrite(name string) (filestore.DiskFile, error) {
	if err := d.call("open to write", name); err != nil {
		return nil, err
	}
	f, err := d.Disk.OpenToWrite(name)
	if err != nil {
		return nil, err
	}
	return failingFile{f, d, name}, nil
}

func (d *failingDisk) Rename(from, to string) error {
	if err := d.call("rename", to); err != nil {
		return err
	}
	return d.Disk.Rename(from, to)
}

func (d *failingDisk) Link(from, to string) error {
	if err := d.call("link", to); err != nil {
		return err
	}
	return d.Disk.Link(from, to)
}

func (d *failingDisk) Remove(name string) error {
	if err := d.call("remove", name); err != nil {
		return err
	}
	return d.Disk.Remove(name)
}

func (d *failingDisk) Mkdir(name string) error {
	if err := d.call("mkdir", name); err != nil {
		return err
	}
	return d.Disk.Mkdir(name)
}

func (d *failingDisk) SyncDir(name string) error {
	if err := d.call("syncdir", name); err != nil {
		return err
	}
	return d.Disk.SyncDir(name)
}

type failingReader struct {
	filestore.OpenFile
	disk *failingDisk
	name string
}

func (f failingReader) ReadAt(data []byte, offset int64) (int, error) {
	if err := f.disk.call("read", f.name); err != nil {
		return 0, err
	}
	return f.OpenFile.ReadAt(data, offset)
}

func (f failingReader) Stat() (fs.FileInfo, error) {
	if err := f.disk.call("stat", f.name); err != nil {
		return nil, err
	}
	return f.OpenFile.Stat()
}

type failingFile struct {
	filestore.DiskFile
	disk *failingDisk
	name string
}

// WriteAt writes half of the data if it fails, like a full disk.
func (f failingFile) WriteAt(data []byte, offset int64) (int, error) {
	if err := f.disk.call("write", f.name); err != nil {
		n, _ := f.DiskFile.WriteAt(data[:len(data)/2], offset)
		return n, err
	}
	return f.DiskFile.WriteAt(data, offset)
}

func (f failingFile) Allocate(offset, size int64) error {
	if err := f.disk.call("allocate", f.name); err != nil {
		return err
	}
	return f.DiskFile.Allocate(offset, size)
}

func (f failingFile) Truncate(size int64) error {
	if err := f.disk.call("truncate", f.name); err != nil {
		return err
	}
	return f.DiskFile.Truncate(size)
}

func (f failingFile) Sync() error {
	if err := f.disk.call("sync", f.name); err != nil {
		return err
	}
	return f.DiskFile.Sync()
}

// Close closes the file even if it fails, as close(2) does.
func (f failingFile) Close() error {
	return errors.Join(f.disk.call("close", f.name), f.DiskFile.Close())
}
