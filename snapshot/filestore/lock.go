package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// A fileLock is a lock on a file. The system releases it when the process
// ends, however it ends.
//
// A writer holds it exclusively. To find out whether there is one, the lock is
// taken shared, for a moment, which must not look like a writer to one that
// opens the run at that time: see tryExclusive.
type fileLock struct{ f *os.File }

// errHeld is a lock that somebody else has.
var errHeld = errors.New("held")

// openLock opens a lock file, which may have to be created.
func openLock(name string) (*os.File, error) {
	return openAs(name, os.O_CREATE|os.O_RDWR)
}

// exclusive takes the lock of the file that open opens, or returns errHeld. With
// wait it waits until ctx ends: the system has no wait that can be cancelled, so it
// tries again and again, every 25 ms in the end.
//
// The file may be deleted, with all of its directory, between opening and
// locking it: then what was locked is not what others would lock, and it
// begins anew. prepare is called before each opening.
func exclusive(ctx context.Context, name string, wait bool, prepare func() error, open func(string) (*os.File, error)) (*fileLock, error) {
	for pause := time.Millisecond; ; pause = min(2*pause, 25*time.Millisecond) {
		l, err := tryExclusive(name, prepare, open)
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, errRetry):
		case !errors.Is(err, errHeld) || !wait:
			return nil, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// errRetry is a lock that could not be had for a reason that passes at once.
var errRetry = errors.New("busy")

func tryExclusive(name string, prepare func() error, open func(string) (*os.File, error)) (*fileLock, error) {
	if err := prepare(); err != nil {
		return nil, err
	}
	f, err := open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errRetry // it was deleted meanwhile
	} else if err != nil {
		return nil, err
	}
	if err := flock(f, lockExclusive); err != nil {
		if errors.Is(err, errHeld) && flock(f, lockShared) == nil {
			err = errRetry // those who have it share it: they only look whether it is held
		}
		_ = f.Close()
		return nil, err
	}
	if !isNamed(f, name) {
		_ = f.Close()
		return nil, errRetry
	}
	return &fileLock{f}, nil
}

// isNamed reports whether name is f still.
func isNamed(f *os.File, name string) bool {
	opened, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(name)
	return err == nil && os.SameFile(opened, named)
}

// release releases the lock. Closing the file is not enough: a process that is
// started at the same time has its descriptors for a moment, and with them the
// lock.
func (l *fileLock) release() {
	_ = flock(l.f, lockNone) // without it the lock goes with the descriptors
	_ = l.f.Close()
}

// isHeld reports whether somebody has the lock of the file exclusively.
func isHeld(name string) (bool, error) {
	f, err := openRegular(name)
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
