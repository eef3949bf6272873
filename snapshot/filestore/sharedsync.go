package filestore

import (
	"errors"
	"os"
	"sync/atomic"
)

// A sharedSync makes files durable. When many are to be synced at the same time, it syncs
// their file system once for all of them: a sync flushes the disk's cache, and a disk
// flushes only so often.
//
// A nil sharedSync syncs each file by itself.
type sharedSync struct {
	fs     fileSystem
	active atomic.Int32 // syncs under way
	rounds group
	failed atomic.Bool // a sync of the file system failed, or it is closed
}

// A fileSystem can be synced as a whole.
type fileSystem interface {
	has(f *os.File) bool
	dirty() int64 // at most so many bytes have to be written, for all programs
	sync() error  // what was written before the call is durable
	close() error
}

const (
	// syncsAlone is how many syncs at once cost no more than a shared one.
	syncsAlone = 4
	// maxDirty bounds how long a shared sync writes what other programs have written to the
	// file system.
	maxDirty = 256 << 20
)

// errNotShared makes each file be synced by itself.
var errNotShared = errors.New("the file system is not synced as a whole")

// sync makes durable what was written to a file or a directory before the call. Alone syncs
// that file only.
//
// A failed sync of the file system may have been reported to another caller: the
// system reports it once, possibly before all who wrote have called. So from then
// on each file is synced by itself, which reports what happened to this file.
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

// close makes each file be synced by itself from now on.
func (s *sharedSync) close() error {
	if s == nil {
		return nil
	}
	s.failed.Store(true)
	return s.rounds.do(s.fs.close) // no round is under way then
}
