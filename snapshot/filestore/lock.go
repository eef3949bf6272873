package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A fileLock is a lock on a file. The operating system releases it when the process ends, even if
// the process crashes.
//
// A writer holds an exclusive lock. A process that only checks whether there is a writer holds a
// shared lock for a moment; tryExclusive must not mistake such a process for a writer.
type fileLock struct {
	f    lockable
	file fs.FileInfo // describes f, for comparison with the file that now has that name
	name string
	dir  *os.Root // the directory that contains f, wherever it is moved
}

// lockable is an open file that can be locked.
type lockable interface {
	Fd() uintptr
	Name() string
	Stat() (fs.FileInfo, error)
	Close() error
}

// errHeld means that another process holds the lock.
var errHeld = errors.New("the lock is held")

// openLock opens a lock file, and creates it if it does not exist.
func openLock(name string) (*os.File, error) {
	f, _, err := openAs(name, os.O_CREATE|os.O_RDWR)
	return f, err
}

// exclusive calls open to open the file with the given name, and locks the file exclusively. If
// another process holds the lock, exclusive waits for as long as mayWait returns true, and then
// returns errHeld. The argument of mayWait is how long exclusive has waited. If ctx ends first, the
// error wraps the cause of ctx and the last error, which is errHeld or errRetry. The system call
// cannot be cancelled; therefore exclusive does not let it block, but repeats it after pauses of up
// to 25 ms.
//
// The file may be deleted, with its whole directory, after it is opened and before it is locked.
// Other processes would then lock a new file with the same name, so exclusive opens the file again.
// It also does so if open returns errRetry.
//
// A reader holds a shared lock only for a moment. If the lock is still shared after sharedTries, it
// counts as held. mayWait does not limit these tries, nor those after errRetry.
func exclusive(ctx context.Context, name string, mayWait func(time.Duration) bool, open func() (lockable, error)) (*fileLock, error) {
	shared, waited := 0, time.Duration(0)
	for pause := time.Millisecond; ; pause = min(2*pause, 25*time.Millisecond) {
		l, err := tryExclusive(name, open)
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, errShared) && shared < sharedTries:
			shared++
			err = errRetry
		case errors.Is(err, errRetry):
		case !errors.Is(err, errHeld) || !mayWait(waited):
			return nil, err
		}
		waited += pause
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// sharedTries is the number of tries while other processes share the lock. All tries together take
// about a second.
const sharedTries = 45

var (
	// errRetry means that the lock could not be taken for a reason that lasts only a moment.
	errRetry = errors.New("the lock is busy")
	// errShared means that another program holds a shared lock. It matches errHeld.
	errShared = fmt.Errorf("%w by another program, as a shared lock", errHeld)
)

func tryExclusive(name string, open func() (lockable, error)) (*fileLock, error) {
	f, err := open()
	if err != nil {
		return nil, err
	}
	if err := flock(f, lockExclusive); err != nil {
		if errors.Is(err, errHeld) && flock(f, lockShared) == nil {
			err = errShared
		}
		_ = f.Close()
		return nil, err
	}
	l := &fileLock{f: f, name: name}
	if l.file, err = f.Stat(); err == nil {
		err = l.openDir()
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

// openDir opens the directory that contains the locked file. It returns errRetry if the
// directory no longer contains the file under its name.
func (l *fileLock) openDir() error {
	dir, err := os.OpenRoot(filepath.Dir(l.name))
	if err == nil {
		var named fs.FileInfo
		if named, err = dir.Lstat(filepath.Base(l.name)); err == nil && os.SameFile(l.file, named) {
			l.dir = dir
			return nil
		}
		_ = dir.Close()
	}
	if err == nil || isGone(err) {
		return errRetry
	}
	return err
}

// isGone reports whether an error means that a name, or a directory in its path, does not exist.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// isNamed reports whether the locked file still has its name.
func (l *fileLock) isNamed() (bool, error) {
	named, err := os.Lstat(l.name)
	switch {
	case err == nil:
		return os.SameFile(l.file, named), nil
	case isGone(err):
		return false, nil
	}
	return false, err
}

// release releases the lock and closes the file and the directory. Closing the file would not be
// enough: a process that is being started at the same time inherits the descriptor, and with it the
// lock, for a moment.
func (l *fileLock) release() {
	_ = flock(l.f, lockNone) // if this fails, closing the descriptors releases the lock
	_ = l.f.Close()
	_ = l.dir.Close()
}

// isHeld reports whether a process holds an exclusive lock on the file.
func isHeld(name string) (bool, error) {
	f, _, err := openAs(name, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer func() { _ = f.Close() }()
	err = flock(f, lockShared)
	if errors.Is(err, errHeld) {
		return true, nil
	}
	return false, err
}
