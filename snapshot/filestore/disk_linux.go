package filestore

import (
	"errors"
	"os"
	"syscall"
)

// allocate reserves disk space for size bytes at offset. These bytes read as zeros.
func allocate(f *os.File, offset, size int64) error {
	err := retryEINTR(func() error { return syscall.Fallocate(int(f.Fd()), 0, offset, size) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return errors.ErrUnsupported
	}
	return err
}

// syncData is like fsync, but does not sync the file's times. It syncs the file's size if the size
// has changed.
func syncData(f *os.File) error {
	if err := retryEINTR(func() error { return syscall.Fdatasync(int(f.Fd())) }); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

func retryEINTR(f func() error) error {
	for {
		if err := f(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

const seekData, seekHole = 3, 4 // arguments of lseek(2)

// nextData returns the first offset, from the given one on, at which data in a sparse file may
// begin. If only a hole follows, it returns size.
func nextData(f *os.File, offset, size int64) int64 {
	at, err := syscall.Seek(int(f.Fd()), offset, seekData)
	switch {
	case errors.Is(err, syscall.ENXIO):
		return size
	case err != nil:
		return offset
	}
	return max(at, offset)
}

// nextHole returns the first offset, from the given one on, at which a hole begins. The end of the
// file counts as a hole.
func nextHole(f *os.File, offset, size int64) int64 {
	at, err := syscall.Seek(int(f.Fd()), offset, seekHole)
	if err != nil || at <= offset {
		return size
	}
	return at
}
