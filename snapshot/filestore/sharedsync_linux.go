package filestore

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// newSharedSync returns a sharedSync for the file system that contains a directory, or nil if files
// there must be synced separately. On ext4 and XFS, everything is durable when syncfs(2) returns.
// Since Linux 5.8, syncfs reports errors from earlier writes; since 5.17, it also reports errors
// from the file system's own sync.
func newSharedSync(dir string) *sharedSync {
	var fs unix.Statfs_t
	if !isLinuxAtLeast(5, 17) || unix.Statfs(dir, &fs) != nil {
		return nil
	}
	switch fs.Type {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC:
	default:
		return nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	device, err := deviceOf(f)
	if err != nil {
		_ = f.Close()
		return nil
	}
	return &sharedSync{fs: &linuxFS{f, device}}
}

func isLinuxAtLeast(major, minor int) bool {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return false
	}
	var isMajor, isMinor int
	_, err := fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &isMajor, &isMinor)
	return err == nil && (isMajor > major || isMajor == major && isMinor >= minor)
}

func deviceOf(f *os.File) (uint64, error) {
	var s unix.Stat_t
	err := retryEINTR(func() error { return unix.Fstat(int(f.Fd()), &s) })
	return uint64(s.Dev), err //nolint:unconvert // Dev has fewer bits on some machines
}

// A linuxFS is the file system that contains a directory.
type linuxFS struct {
	// dir is opened before the first write, because syncfs with this descriptor reports all errors
	// since the descriptor was opened, including errors from background writes.
	dir    *os.File
	device uint64
}

func (l *linuxFS) has(f *os.File) bool {
	device, err := deviceOf(f)
	return err == nil && device == l.device
}

// dirty returns how many bytes the whole machine has not written to its disks yet.
func (l *linuxFS) dirty() int64 {
	info, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return math.MaxInt64
	}
	_, after, _ := bytes.Cut(info, []byte("\nDirty:"))
	size, _, _ := bytes.Cut(after, []byte(" kB"))
	kB, err := strconv.ParseInt(string(bytes.TrimSpace(size)), 10, 64)
	if err != nil {
		return math.MaxInt64
	}
	return kB << 10
}

func (l *linuxFS) close() error {
	if err := l.dir.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

// sync syncs the file system and then the directory. The second sync makes the disk flush its
// cache. On ext4 without a journal, syncfs does that too early.
func (l *linuxFS) sync() error {
	err := retryEINTR(func() error { return unix.Syncfs(int(l.dir.Fd())) })
	return errors.Join(err, l.dir.Sync())
}
