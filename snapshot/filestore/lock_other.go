//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filestore

import (
	"errors"
	"fmt"
	"runtime"
)

// checkLocks returns an error: this system has no flock.
func checkLocks() error {
	return fmt.Errorf("snapshot/filestore: %s has no flock, without which two processes could overwrite each other's data; use another store: %w",
		runtime.GOOS, errors.ErrUnsupported)
}

const (
	lockExclusive = iota
	lockShared
	lockNone
)

// flock always fails; New has already returned an error.
func flock(lockable, int) error { return checkLocks() }
