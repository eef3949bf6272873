package filestore

import (
	"errors"
	"os"
	"sync/atomic"
)

// A sharedSync makes files durable. If many files are to be synced at the same time, it syncs their
// file system once for all of them, because each sync flushes the disk's cache, and a disk can do
// that only a limited number of times per second.
//
// A nil sharedSync syncs each file separately.
type sharedSync struct {
	fs     fileSystem
	active atomic.Int32 // number of running syncs
	rounds group
	failed atomic.Bool // set after a sync of the file system failed, and after close
}

// A fileSystem is a file system that can be synced as a whole.
type fileSystem interface {
	has(f *os.File) bool
	dirty() int64 // an upper bound for the number of bytes, from all programs, that are not on the disk yet
	sync() error  // makes everything durable that was written before the call
	close() error
}

const (
	// syncsAlone is how many separate syncs can run at a time without costing more than a shared one.
	syncsAlone = 4
	// maxDirty is the maximum amount of data, including that of other programs, that a shared sync
	// may have to write.
	maxDirty = 256 << 20
)

// errNotShared means that the file must be synced separately.
var errNotShared = errors.New("the file system is not synced as a whole")

// sync makes durable everything that was written to a file or a directory before the call. The
// function alone syncs only that file.
//
// If syncing the file system fails, the operating system reports this only once, possibly to
// another caller, and before all writers have called sync. So after a failure, each file is synced
// separately, which reports what happened to that file.
func (s *sharedSync) sync(f *os.File, alone func(*os.File) error) error {
	if s == nil {
		return alone(f)
	}
	active := s.active.Add(1)
	defer s.active.Add(-1)
	if active > syncsAlone && s.fs.has(f) && s.rounds.do(s.syncAll) == nil {
		return nil
	}
	return alone(f)
}

// syncTogether makes durable everything that was written to the file system before the call, if
// there are enough other callers to share the sync with. It reports whether it did so.
func (s *sharedSync) syncTogether(f *os.File) bool {
	return s.sync(f, func(*os.File) error { return errNotShared }) == nil
}

func (s *sharedSync) syncAll() error {
	if s.failed.Load() || s.fs.dirty() > maxDirty {
		return errNotShared
	}
	err := s.fs.sync()
	if err != nil {
		s.failed.Store(true)
	}
	return err
}

// close closes s.fs. From then on, each file is synced separately.
func (s *sharedSync) close() error {
	if s == nil {
		return nil
	}
	s.failed.Store(true)
	return s.rounds.do(s.fs.close) // no round is running then
}
