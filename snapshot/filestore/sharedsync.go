package filestore

import (
	"errors"
	"os"
	"sync/atomic"
)

// A sharedSync makes files durable. When many files are to be synced at the same time, it syncs
// their file system once for all of them: each sync flushes the cache of the disk, and a disk can
// do that only a limited number of times per second.
//
// A nil sharedSync syncs each file separately.
type sharedSync struct {
	fs     fileSystem
	active atomic.Int32 // number of running syncs
	rounds group
	failed atomic.Bool // set after a sync of the file system failed, and after close
}

// A fileSystem can be synced as a whole.
type fileSystem interface {
	has(f *os.File) bool
	dirty() int64 // an upper bound for the bytes, of all programs, that are not on the disk yet
	sync() error  // makes durable what was written before the call
	close() error
}

const (
	// syncsAlone is how many separate syncs at a time cost no more than a shared one.
	syncsAlone = 4
	// maxDirty limits how much data of other programs a shared sync may have to write.
	maxDirty = 256 << 20
)

// errNotShared means that the file has to be synced separately.
var errNotShared = errors.New("the file system is not synced as a whole")

// sync makes durable what was written to a file or a directory before the call. The function alone
// syncs only that file.
//
// The system reports a failed sync of the file system only once, possibly to another caller and
// before all writers have called sync. So after a failure, each file is synced separately, which
// reports what happened to this file.
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

// syncTogether makes durable what was written to the whole file system before the call, if there
// are other callers to share that with. It reports whether it did.
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

// close closes the file system. Each file is then synced separately.
func (s *sharedSync) close() error {
	if s == nil {
		return nil
	}
	s.failed.Store(true)
	return s.rounds.do(s.fs.close) // no round is running then
}
