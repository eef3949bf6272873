//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"errors"
	"fmt"
	"syscall"
)

const (
	lockExclusive = syscall.LOCK_EX
	lockShared    = syscall.LOCK_SH
	lockNone      = syscall.LOCK_UN
)

// checkLocks returns nil: this system has flock.
func checkLocks() error { return nil }

// flock takes or releases the lock on an open file, without waiting. The lock belongs to this open
// file and not to the process, so two lockers in one process also exclude each other.
func flock(f lockable, how int) error {
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EWOULDBLOCK):
			return errHeld
		default:
			return fmt.Errorf("snapshot: lock %s: %w", f.Name(), err)
		}
	}
}
