//go:build !(darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd)

package filestore

import (
	"errors"
	"fmt"
	"runtime"
)

const (
	lockExclusive = iota
	lockShared
	lockNone
)

// flock fails: without locks, two writers would overwrite each other's data.
func flock(f lockable, _ int) error {
	return fmt.Errorf("snapshot: lock %s: on %s: %w", f.Name(), runtime.GOOS, errors.ErrUnsupported)
}
