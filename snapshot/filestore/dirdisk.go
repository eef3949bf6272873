package filestore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A dirOpener is a disk that can be limited to an open directory.
type dirOpener interface {
	// In returns a disk for the files in dir, which was opened with the given path.
	In(dir *os.Root, path string) disk
}

// A dirDisk is a disk for the files in an open directory. Their names are paths, as for other
// disks, but the path of the directory is not looked up again. If the directory is moved, a dirDisk
// still accesses the files that moved with it, and never files in a directory that has since taken
// its place. Mkdir and Link look up paths.
type dirDisk struct {
	osDisk
	dir  *os.Root
	path string
}

// In implements dirOpener.
func (d osDisk) In(dir *os.Root, path string) disk { return dirDisk{d, dir, path} }

func (d dirDisk) Open(name string) (openFile, int64, error) {
	f, info, err := d.openAs(name, os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	return osFile{f, d.syncs}, info.Size(), nil
}

func (d dirDisk) ReadDir(name string) ([]fs.DirEntry, error) {
	f, err := d.openFile(name, os.O_RDONLY|noWait, 0) // noWait because the name may refer to a pipe
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	entries, err := f.ReadDir(-1)
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

func (d dirDisk) Create(name string) (diskFile, error) {
	f, err := createNew(name, d.openFile, d.Remove)
	if err != nil {
		return nil, err
	}
	return osFile{f, d.syncs}, nil
}

func (d dirDisk) OpenToWrite(name string) (diskFile, error) {
	f, _, err := d.openAs(name, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	return osFile{f, d.syncs}, nil
}

func (d dirDisk) Rename(from, to string) error {
	err := d.dir.Rename(d.rel(from), d.rel(to))
	if e, ok := errors.AsType[*os.LinkError](err); ok {
		err = &os.LinkError{Op: "rename", Old: from, New: to, Err: e.Err}
	}
	return err
}

func (d dirDisk) Remove(name string) error { return named("remove", name, d.dir.Remove(d.rel(name))) }

func (d dirDisk) SyncDir(name string) error {
	f, err := d.openFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.syncs.sync(f, (*os.File).Sync), f.Close())
}

// openAs is like the function openAs. A Root follows links within its directory, so the name itself
// must also be looked up.
func (d dirDisk) openAs(name string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := d.openFile(name, flags|noFollow, 0o600)
	if info, lstat := d.dir.Lstat(d.rel(name)); lstat == nil && info.Mode()&fs.ModeSymlink != 0 {
		if err == nil {
			_ = f.Close()
		}
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: errLink}
	}
	return regular(name, f, err)
}

func (d dirDisk) openFile(name string, flags int, mode fs.FileMode) (*os.File, error) {
	f, err := d.dir.OpenFile(d.rel(name), flags, mode)
	return f, named("open", name, err)
}

// rel returns the name of a file relative to the directory. A Root refuses a name outside its
// directory.
func (d dirDisk) rel(name string) string {
	rel, err := filepath.Rel(d.path, name)
	if err != nil {
		return name
	}
	return rel
}

// named returns err with the full path of a file, because a Root reports only the file's name
// within its directory.
func named(op, name string, err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return &fs.PathError{Op: op, Path: name, Err: e.Err}
	}
	return err
}
