package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// A FileStore keeps runs in a directory, and artifacts beside them:
//
//	runs/<run ID>/snapshot          what was compacted
//	runs/<run ID>/journal-00000007  what came after it
//	runs/<run ID>/meta              what List needs
//	runs/<run ID>/lock              whoever writes has it locked
//	runs/<run ID>/inbox/            messages that wait, see Inbox
//	artifacts/ab/cdef…              see FileArtifacts
//	trash/                          runs that are being deleted
//
// Files are readable by their owner alone. The directory may be used by many
// processes of one machine; network file systems are fine if their locks and
// renames are. A FileStore is for many goroutines and needs no closing.
type FileStore struct {
	dir       string
	disk      disk
	artifacts *FileArtifacts
	warn      func(runID string, err error)

	compactFrom int64 // bytes

	notices   *notices // nil if the system is not asked
	lookEvery time.Duration
}

// compactFrom is the size from which on a journal is compacted, if it also
// outgrew its snapshot twice.
const compactFrom = 1 << 20

// FileOption changes how a FileStore works.
type FileOption func(*FileStore)

// WithWarnings has f called with what went wrong without harm: the end of a
// journal that a crash left unfinished and that was cut off (*[TornTail]), a
// compaction that did not work out and will be tried again, a file in an inbox
// that is no message and was set aside, a run that List cannot read. It may be called
// from any goroutine. Defaults to nobody hearing of it.
func WithWarnings(f func(runID string, err error)) FileOption {
	return func(s *FileStore) { s.warn = f }
}

// NewFileStore returns the store in a directory, which is made if it is not
// there. On the clock of testing/synctest it needs WithInboxCheck.
func NewFileStore(dir string, opts ...FileOption) (*FileStore, error) {
	s := &FileStore{dir: dir, disk: osDisk{}, warn: func(string, error) {}, compactFrom: compactFrom}
	s.notices, s.lookEvery = new(notices), lookEvery
	for _, opt := range opts {
		opt(s)
	}
	if s.lookEvery <= 0 {
		return nil, fmt.Errorf("snapshot: WithInboxCheck(%v): allowed is above 0", s.lookEvery)
	}
	if err := makeDir(s.disk, s.dir); err != nil {
		return nil, fmt.Errorf("snapshot: %w", advise(err))
	}
	if err := mkdirSynced(s.disk, s.path("runs")); err != nil {
		return nil, fmt.Errorf("snapshot: %w", advise(err))
	}
	var err error
	s.artifacts, err = newFileArtifacts(s.dir, s.disk)
	return s, err
}

// The names of the files of a run. Every path of a store is made of these and
// of run IDs that CheckRunID has seen.
const (
	snapshotName = "snapshot"
	metaName     = "meta"
	lockName     = "lock"
	tmpSuffix    = ".tmp"
	journalName  = "journal-%08d"
)

func (s *FileStore) path(elem ...string) string {
	return filepath.Join(append([]string{s.dir}, elem...)...)
}

func (s *FileStore) run(runID string, elem ...string) string {
	return s.path(append([]string{"runs", runID}, elem...)...)
}

func noRun(runID string) error {
	return &kindError{fmt.Sprintf("snapshot: no run %s", runID), ErrNotFound}
}

// check is what every method does first.
func check(ctx context.Context, runID string) error {
	if err := CheckRunID(runID); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// lock takes the lock of a run whose directory is there, or is made.
func (s *FileStore) lock(ctx context.Context, runID string, wait, create bool) (*fileLock, error) {
	l, err := exclusive(ctx, s.run(runID, lockName), wait, func() error {
		if create {
			return s.disk.Mkdir(s.run(runID))
		}
		_, err := os.Stat(s.run(runID))
		return err
	})
	switch {
	case err == nil:
		l.sign()
		return l, nil
	case errors.Is(err, errHeld):
		locked := &LockedError{RunID: runID, PID: holder(s.run(runID, lockName))}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", locked, context.Cause(ctx))
		}
		return nil, locked
	case !create && errors.Is(err, fs.ErrNotExist):
		return nil, noRun(runID)
	}
	return nil, fmt.Errorf("snapshot: open run %s: %w", runID, advise(err))
}

// Open implements [Store]. The journal is a *[FileJournal]. A run that is
// damaged is not opened: the error is a *[CorruptError], and [Repair] saves
// what can be read.
func (s *FileStore) Open(ctx context.Context, runID string, o OpenOptions) (Journal, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	l, err := s.lock(ctx, runID, o.Wait, o.Create)
	if err != nil {
		return nil, err
	}
	j, err := s.open(ctx, runID, o, l)
	if err != nil {
		l.release()
		return nil, err
	}
	if j.torn != nil {
		s.warn(runID, j.torn)
	}
	return j, nil
}

// open begins a generation of a run that is locked.
func (s *FileStore) open(ctx context.Context, runID string, o OpenOptions, l *fileLock) (*FileJournal, error) {
	found, err := s.read(ctx, runID)
	if err != nil {
		return nil, advise(err)
	}
	if !found.found && !o.Create {
		return nil, noRun(runID)
	}
	restored, err := found.index()
	if err != nil {
		return nil, advise(err)
	}
	now := time.Now().UTC()
	info := found.info
	if !found.found {
		info = Info{RunID: runID, ParentID: o.ParentID, Metadata: o.Metadata.Clone(), Created: now, Updated: now}
		info.Status = StatusRunning
	} else if info.Status == StatusRunning {
		info.Status = StatusInterrupted // nobody has it
	}
	info.keepRetry(o.Retry)
	info.Generation++
	j := &FileJournal{store: s, lock: l, torn: found.torn}
	restored.Info = info
	j.restored = restored
	info.Status, info.Updated = StatusRunning, now
	j.info = info
	if err := j.begin(found); err != nil {
		return nil, fmt.Errorf("snapshot: open run %s: %w", runID, err)
	}
	return j, nil
}

// Load implements [Store]. A run that a crash has ended is interrupted; the
// unfinished end of its journal, or of one that is being written to, is not
// in what Load returns.
func (s *FileStore) Load(ctx context.Context, runID string) (sn *Snapshot, err error) {
	err = s.load(ctx, runID, func(found *reading) (*Info, error) {
		records, err := found.decode()
		sn = &Snapshot{Info: found.info, Records: records}
		return &sn.Info, err
	})
	if err != nil {
		return nil, err
	}
	return sn, nil
}

// LoadLazy implements [LazyStore].
func (s *FileStore) LoadLazy(ctx context.Context, runID string) (l *Lazy, err error) {
	err = s.load(ctx, runID, func(found *reading) (*Info, error) {
		if l, err = found.index(); err != nil {
			return nil, err
		}
		return &l.Info, nil
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// load reads a run, has it taken, and settles what was taken.
func (s *FileStore) load(ctx context.Context, runID string, take func(*reading) (*Info, error)) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	read := func() (*Info, error) {
		found, err := s.read(ctx, runID)
		if err != nil {
			return nil, advise(err)
		}
		if !found.found {
			return nil, noRun(runID)
		}
		info, err := take(found)
		return info, advise(err)
	}
	info, err := read()
	if err != nil {
		return err
	}
	return s.settle(info, read)
}

// advise adds to an error what to do about it, where that is known.
func advise(err error) error {
	var damage *CorruptError
	switch {
	case errors.As(err, &damage):
		return fmt.Errorf("%w; snapshot.Repair saves what can be read", err)
	case errors.Is(err, syscall.EISDIR):
		return fmt.Errorf("%w; a file belongs there: put the directory elsewhere", err)
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%w; a directory belongs there: put the file elsewhere", err)
	}
	return err
}

// settle makes a run that its files call running, and that nobody has open,
// an interrupted one. Whoever had it open may have closed it after they were
// read, and so they are read again: only if they still call that generation
// running was it never closed.
func (s *FileStore) settle(info *Info, again func() (*Info, error)) error {
	for info.Status == StatusRunning {
		held, err := isHeld(s.run(info.RunID, lockName))
		if err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		if held {
			return nil
		}
		generation := info.Generation
		if info, err = again(); err != nil {
			return err
		}
		if info.Status == StatusRunning && info.Generation == generation {
			info.Status = StatusInterrupted
		}
	}
	return nil
}

// Delete implements [Store]. The run is gone at once, for it goes to the
// trash by renaming; then its files are removed. If the process ends between,
// the next Delete empties the trash.
func (s *FileStore) Delete(ctx context.Context, runID string) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	l, err := s.lock(ctx, runID, false, false)
	if err != nil {
		return err
	}
	defer l.release()
	if there, err := s.isThere(runID); err != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
	} else if !there {
		return noRun(runID)
	}
	if err := s.trash(runID); err != nil {
		return fmt.Errorf("snapshot: delete run %s: %w", runID, err)
	}
	return nil
}

// isThere reports whether the run was begun, damaged or not.
func (s *FileStore) isThere(runID string) (bool, error) {
	entries, err := os.ReadDir(s.run(runID))
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return e.Name() != lockName && e.Name() != inboxName && filepath.Ext(e.Name()) != tmpSuffix
	}), err
}

func (s *FileStore) trash(runID string) error {
	if err := mkdirSynced(s.disk, s.path("trash")); err != nil {
		return err
	}
	// A directory of its own, so that the name is free.
	bin, err := os.MkdirTemp(s.path("trash"), "")
	if err != nil {
		return err
	}
	if err := s.disk.Rename(s.run(runID), filepath.Join(bin, runID)); err != nil {
		return err
	}
	if err := s.disk.SyncDir(s.path("runs")); err != nil {
		return err
	}
	return os.RemoveAll(s.path("trash"))
}

// Put implements [ArtifactStore], see [FileArtifacts].
func (s *FileStore) Put(ctx context.Context, data []byte) (reference string, err error) {
	return s.artifacts.Put(ctx, data)
}

// Get implements [ArtifactStore], see [FileArtifacts].
func (s *FileStore) Get(ctx context.Context, reference string) ([]byte, error) {
	return s.artifacts.Get(ctx, reference)
}
