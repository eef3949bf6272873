//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// From its fork until it executes its program, a new process holds the descriptor of the lock.
func TestALockIsReleasedWhileAnotherProcessIsStarted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() (lockable, error) { return openLock(name) }
	never := func(time.Duration) bool { return false }
	first, err := exclusive(t.Context(), name, never, open)
	require.NoError(t, err)
	inherited, err := syscall.Dup(int(first.f.Fd()))
	require.NoError(t, err)
	defer func() { _ = syscall.Close(inherited) }()
	first.release()

	second, err := exclusive(t.Context(), name, never, open)
	require.NoError(t, err)
	second.release()
}
