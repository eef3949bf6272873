//go:build darwin || dragonfly || freebsd || illumos || linux || netbsd || openbsd

package filestore

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// From its fork until it executes its program, a new process holds the descriptor of the lock.
func TestALockIsReleasedWhileAnotherProcessIsStarted(t *testing.T) {
	name := filepath.Join(t.TempDir(), "lock")
	open := func() (lockable, error) { return openLock(name) }
	first, err := exclusive(t.Context(), name, 0, open)
	require.NoError(t, err)
	inherited, err := syscall.Dup(int(first.f.Fd()))
	require.NoError(t, err)
	defer func() { _ = syscall.Close(inherited) }()
	first.release()

	second, err := exclusive(t.Context(), name, 0, open)
	require.NoError(t, err)
	second.release()
}
