package filestore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/reprise-go/reprise/snapshot"
)

// disk provides the operations with which a store reads and changes files. Tests replace it with a
// disk that fails or that simulates a crash. It is not used for a run's lock file, nor for calls
// that only look up a name, such as Lstat.
type disk interface {
	Open(name string) (openFile, int64, error) // opens a file for reading and returns its size; fails for a link or a pipe
	ReadDir(name string) ([]fs.DirEntry, error)
	Create(name string) (diskFile, error)      // creates a file for writing, with mode 0600; removes an existing file with that name first
	OpenToWrite(name string) (diskFile, error) // opens an existing file
	Rename(from, to string) error
	Link(from, to string) error // gives a file a second name, which must be free
	Remove(name string) error
	Mkdir(name string) error   // creates a directory with mode 0700 if it does not exist
	SyncDir(name string) error // makes the names in the directory durable

	// SyncTogether makes everything durable that was written to f's file system before the call, if
	// that costs less than syncing f alone. It reports whether it did so.
	SyncTogether(f diskFile) bool
}

// openFile is a file opened for reading.
type openFile interface {
	source
	Stat() (fs.FileInfo, error)
	Close() error
}

// diskFile is a file opened for writing.
type diskFile interface {
	lockable
	WriteAt(data []byte, offset int64) (int, error)
	Allocate(offset, size int64) error // reserves space for size bytes at offset, which read as zeros; may return ErrUnsupported
	Truncate(size int64) error
	Sync() error // makes the content and the size of the file durable
}

// osDisk implements disk with the functions of package os. It follows links only in the path of
// the store itself.
type osDisk struct{ syncs *sharedSync }

type osFile struct {
	*os.File
	syncs *sharedSync
}

func (f osFile) dataAt(offset, size int64) int64 { return nextData(f.File, offset, size) }

func (f osFile) holeAt(offset, size int64) int64 { return nextHole(f.File, offset, size) }

func (f osFile) Allocate(offset, size int64) error { return allocate(f.File, offset, size) }

func (f osFile) Sync() error { return f.syncs.sync(f.File, syncData) }

func (d osDisk) Open(name string) (openFile, int64, error) {
	f, info, err := openAs(name, os.O_RDONLY)
	if err != nil {
		return nil, 0, err
	}
	return osFile{f, d.syncs}, info.Size(), nil
}

func (osDisk) ReadDir(name string) ([]fs.DirEntry, error) { return os.ReadDir(name) }

func (d osDisk) Create(name string) (diskFile, error) {
	f, err := createNew(name, os.OpenFile, os.Remove)
	if err != nil {
		return nil, err
	}
	return osFile{f, d.syncs}, nil
}

func (d osDisk) OpenToWrite(name string) (diskFile, error) {
	f, _, err := openAs(name, os.O_WRONLY)
	if err != nil {
		return nil, err
	}
	return osFile{f, d.syncs}, nil
}

func (osDisk) Rename(from, to string) error { return os.Rename(from, to) }

func (osDisk) Remove(name string) error { return os.Remove(name) }

func (osDisk) Link(from, to string) error { return os.Link(from, to) }

func (osDisk) Mkdir(name string) error {
	for {
		if err := os.Mkdir(name, 0o700); !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := checkDir(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		// The directory existed, but was removed before checkDir could look at it: try again.
	}
}

func (d osDisk) SyncDir(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|noWait, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.syncs.sync(f, (*os.File).Sync), f.Close())
}

func (d osDisk) SyncTogether(f diskFile) bool {
	o, ok := f.(osFile)
	return ok && d.syncs.syncTogether(o.File)
}

// The errors for directory entries that do not belong in a store.
var (
	errLink   = errors.New("it is a link, and a store never contains links; replace the link by its target, or delete it")
	errNoFile = errors.New("it is not a file; want a file")
	errNoDir  = fmt.Errorf("%w; want a directory", syscall.ENOTDIR)
)

// checkDir returns an error if name is not a directory. A link to a directory is also an error.
func checkDir(name string) error {
	info, err := os.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Mode()&fs.ModeSymlink != 0:
		return &fs.PathError{Op: "open", Path: name, Err: errLink}
	case !info.IsDir():
		return &fs.PathError{Op: "open", Path: name, Err: errNoDir}
	}
	return nil
}

// createNew creates a file by means of the functions open and remove. It never opens an existing
// file, because that could be a link, or a pipe that nobody reads.
func createNew(name string, open func(string, int, fs.FileMode) (*os.File, error), remove func(string) error) (*os.File, error) {
	const how = os.O_CREATE | os.O_EXCL | os.O_WRONLY | noFollow
	f, err := open(name, how, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if err := remove(name); err != nil {
			return nil, err
		}
		f, err = open(name, how, 0o600)
	}
	return f, err
}

// openAs opens a regular file. Anything else, such as a link or a pipe, is an error.
func openAs(name string, flags int) (*os.File, fs.FileInfo, error) {
	f, err := os.OpenFile(name, flags|noFollow, 0o600)
	return regular(name, f, err)
}

// regular returns a file that was just opened, and its FileInfo. If the file could not be opened or
// is not a regular file, regular returns an error.
func regular(name string, f *os.File, err error) (*os.File, fs.FileInfo, error) {
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: errLink}
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.ENXIO): // ENXIO: a pipe that nobody reads, or a socket
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: errNoFile}
	case err != nil:
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNoFile}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// readFile reads a file. It returns an error if the file is larger than limit bytes.
func readFile(d disk, name string, limit int64) ([]byte, error) {
	f, size, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if size > limit {
		return nil, fmt.Errorf("%s has %d bytes, want at most %d", name, size, limit)
	}
	return readAll(f, size)
}

// readAll reads a file of the given size. If the file has become shorter, readAll returns fewer
// bytes.
func readAll(f io.ReaderAt, size int64) ([]byte, error) {
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return data[:n], err
}

// maxHoles is the maximum total size of the holes in a file, unless the file has more data than
// holes. A file of several terabytes that is a single hole uses no disk space, and must not make
// its reader allocate that much memory. In a store, files have holes at the end, in space that is
// allocated but not yet used, and wherever the file system turns zeros into holes.
const maxHoles = 64 << 20

// readable returns the offset at which the data of a file ends, and true. If the holes in the file
// are too large, it returns false and the offset of the hole that makes them exceed the limit; see
// maxHoles.
func readable(f source, size int64) (upTo int64, all bool) {
	var data, holes int64
	for upTo < size {
		begin := f.dataAt(upTo, size)
		if begin >= size {
			break
		}
		if holes += begin - upTo; holes > max(maxHoles, data) {
			return upTo, false
		}
		upTo = min(f.holeAt(begin, size), size)
		data += upTo - begin
	}
	return upTo, true
}

// replace writes a file under the name tmp and then renames it to name. Whatever happens, the file
// called name has either its old content or all of the new content. When replace returns without an
// error, the new content and the name are durable.
func replace(d disk, tmp, name string, content io.WriterTo) (size int64, err error) {
	if size, err = writeSynced(d, tmp, content); err != nil {
		return 0, err
	}
	if err := d.Rename(tmp, name); err != nil {
		return 0, errors.Join(err, remove(d, tmp))
	}
	return size, d.SyncDir(filepath.Dir(name))
}

// writeSynced writes a file. When it returns without an error, the file is durable, but its name may
// not be. If writing fails, writeSynced removes the file.
func writeSynced(d disk, name string, content io.WriterTo) (size int64, err error) {
	f, err := d.Create(name)
	if err != nil {
		return 0, err
	}
	if size, err = content.WriteTo(&fileWriter{file: f}); err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return 0, errors.Join(err, remove(d, name))
	}
	return size, nil
}

// fileWriter writes a file from its beginning.
type fileWriter struct {
	file diskFile
	at   int64
}

func (w *fileWriter) Write(data []byte) (int, error) {
	if err := writeAt(w.file, data, w.at); err != nil {
		return 0, err
	}
	w.at += int64(len(data))
	return len(data), nil
}

// writeAt writes data at offset. A short write is an error.
func writeAt(f diskFile, data []byte, offset int64) error {
	n, err := f.WriteAt(data, offset)
	if err == nil && n < len(data) {
		err = fmt.Errorf("%d of %d bytes written", n, len(data))
	}
	return err
}

// remove removes a file if it exists.
func remove(d disk, name string) error {
	if err := d.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeDir creates the directory of a store and its parents. It syncs their names even if they exist,
// because the process that created them may have ended before it synced them. Parents that this
// process may not open are not synced; syncing them is left to their owners.
func makeDir(d disk, name string) error {
	if err := os.MkdirAll(name, 0o700); errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("%w; want a directory", err)
	} else if err != nil {
		return err
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	for dir := filepath.Dir(abs); ; dir = filepath.Dir(dir) {
		_ = d.SyncDir(dir)
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}

// mkdirSynced creates a directory in an existing one, and makes its name durable.
func mkdirSynced(d disk, name string) error {
	if err := d.Mkdir(name); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(name))
}

// unavailable adds ErrUnavailable to an error that is not about the data, such as a full disk.
func unavailable(err error) error {
	if errors.Is(err, snapshot.ErrUnavailable) {
		return err
	}
	for _, passing := range []error{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EIO, syscall.EROFS, syscall.EMFILE, syscall.ENFILE, syscall.ENOLCK, syscall.ENOMEM,
		fs.ErrPermission,
	} {
		if errors.Is(err, passing) {
			return fmt.Errorf("%w: %w", snapshot.ErrUnavailable, err)
		}
	}
	return err
}
