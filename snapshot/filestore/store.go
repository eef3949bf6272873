package filestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Store keeps runs in a directory, and artifacts next to them:
//
//	runs/<run ID>/00000007.snapshot  the compacted part of the run, see snapshot.Decode
//	runs/<run ID>/00000008.journal   the records after the snapshot
//	runs/<run ID>/update             changes made by Update since the run was opened
//	runs/<run ID>/meta               an index for lists, derived from the other files
//	runs/<run ID>/lock               locked by the process that has the run open
//	runs/<run ID>/inbox/             waiting messages, see snapshot.Inbox
//	artifacts/ab/cdef…               see Artifacts
//	trash/                           runs that are being deleted
//
// In the name of a run's directory, each upper-case letter of the run ID is written as + followed
// by the lower-case letter.
//
// Do not copy the directory of an open run file by file: the copy may be damaged, or have fewer
// records than were synced. Copy runs that are not open, let the file system take a snapshot of the
// whole directory, or store the result of Load, as reprise export does.
//
// Only the owner can read the files. Any number of processes on one machine may use the directory.
// A network file system works if its locks and renames do. A Store is safe for concurrent use.
type Store struct {
	root      string
	disk      disk
	syncs     *sharedSync // nil if each file is synced separately
	artifacts *Artifacts
	warn      func(runID string, err error)

	compactFrom    int64 // bytes
	compactAtClose int64

	index    *index
	unclosed unclosedRuns

	runs group // syncs the directory that contains the runs, for several callers at once

	notices *notices // nil with WithPolling
	poll    time.Duration
}

var _ snapshot.Store = (*Store)(nil)

// While a run is open, its journals are compacted when they are larger than compactFrom and more
// than twice as large as the run's snapshot.
const compactFrom = 1 << 20

// When a run is closed, its journals are compacted if they are larger than compactAtClose and more
// than half as large as the run's snapshot. Reading smaller journals takes no longer than reading
// their records from the snapshot.
const compactAtClose = 16 << 10

// Option changes how a Store works.
type Option func(*Store)

// WithWarnings sets a function that is called for problems that do no harm: the incomplete end of a
// journal, left by a crash, was cut off (*[TornTail]); a compaction failed and will be tried again;
// a file in an inbox was not a message and was renamed; or List could not read a run. The function
// may be called from any goroutine. By default, such problems are logged by slog.Default, at the
// level Warn.
func WithWarnings(f func(runID string, err error)) Option {
	return func(s *Store) { s.warn = f }
}

// logWarning reports a problem if WithWarnings is not used.
func logWarning(runID string, err error) {
	slog.Default().Warn("filestore: "+err.Error(), "run", runID)
}

// WithPolling makes the store look for changes by other processes at the given interval, instead of
// being notified by the operating system. It is for directories without notifications, such as
// directories shared over a network. It is also for tests that use testing/synctest, whose clock
// stops while a goroutine waits for the operating system. New returns an error if the interval is
// not positive. By default, the system notifies the store, and the store also looks every 2
// seconds.
func WithPolling(every time.Duration) Option {
	return func(s *Store) { s.poll, s.notices = every, nil }
}

// New opens the store in dir, and creates the directory if it does not exist. In a
// testing/synctest bubble, the store needs WithPolling.
//
// The store needs file locks (flock), so it works on Linux, macOS, illumos and the BSDs. On other
// systems, such as Windows, New returns an error that matches errors.ErrUnsupported.
func New(dir string, opts ...Option) (*Store, error) {
	if err := checkLocks(); err != nil {
		return nil, err
	}
	s := &Store{root: filepath.Clean(dir), disk: osDisk{}, warn: logWarning, compactFrom: compactFrom, compactAtClose: compactAtClose, index: newIndex()}
	s.notices, s.poll = &notices{mkdir: osDisk{}.Mkdir}, poll
	for _, opt := range opts {
		opt(s)
	}
	if s.poll <= 0 {
		return nil, fmt.Errorf("snapshot: WithPolling(%v): want a duration above 0", s.poll)
	}
	if dir == "" {
		return nil, errors.New(`snapshot: the name of the directory is empty; want one such as "reprise-data"`)
	}
	if err := makeDir(s.disk, dir); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if err := mkdirSynced(s.disk, s.path("runs")); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if s.disk == (osDisk{}) {
		s.syncs = newSharedSync(s.path("runs"))
		s.disk = osDisk{s.syncs}
	}
	var err error
	if s.artifacts, err = newArtifacts(s.root, s.disk); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Close closes the file descriptor that the store may hold on Linux to sync the whole file system.
// The store and its open journals can still be used; each file is then synced separately. A second
// Close does nothing.
func (s *Store) Close() error { return s.syncs.close() }

func (s *Store) path(elem ...string) string { return join(s.root, elem) }

// join is like filepath.Join, for elements that are single names.
func join(path string, names []string) string {
	for _, name := range names {
		path += string(filepath.Separator) + name
	}
	return path
}

// run returns the path of a run's directory, or of a file in it.
func (s *Store) run(runID string, elem ...string) string {
	return s.dir(runID).path(elem...)
}

// checkedDir returns the directory of a run, whether or not it exists. Every method that takes a
// run ID calls checkedDir first. If the directory is a link, checkedDir returns an error. This
// ensures that all files of a run are in the store.
func (s *Store) checkedDir(ctx context.Context, runID string) (*runDir, error) {
	if err := snapshot.CheckRunID(runID); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	d := s.dir(runID)
	if err := checkDir(d.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("snapshot: run %s: %w", runID, err)
	}
	return d, nil
}

// lock locks a run. If wait is set, it waits until the lock is free. Otherwise it waits up to
// commandWait, and only while the lock is held although no process has the run open. If create is
// set, it creates the run's directory if necessary.
func (d *runDir) lock(ctx context.Context, wait, create bool) (*fileLock, error) {
	name := d.path(lockName)
	mayWait := func(waited time.Duration) bool { return wait || waited < commandWait && d.isMarkedClosed() }
	l, err := exclusive(ctx, name, mayWait, func() (lockable, error) {
		makeOrCheck := checkDir
		if create {
			makeOrCheck = d.disk.Mkdir
		}
		if err := makeOrCheck(d.path()); err != nil {
			return nil, err
		}
		f, err := openLock(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errRetry // the directory was deleted meanwhile
		}
		return f, err
	})
	switch {
	case err == nil:
		return l, nil
	case errors.Is(err, errHeld):
		var locked error = d.lockedError()
		if errors.Is(err, errShared) {
			locked = errkind.New(snapshot.ErrLocked, "snapshot: run %s: another program holds a shared lock on %s; a writer needs an exclusive one", d.runID, name)
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", locked, context.Cause(ctx))
		}
		return nil, locked
	case !create && errors.Is(err, fs.ErrNotExist):
		return nil, storekit.NotFoundError(d.runID)
	}
	return nil, fmt.Errorf("snapshot: open run %s: %w", d.runID, unavailable(err))
}

// commandWait is how long a process waits for the lock on a closed run. Such a run is locked by a
// process that changes, repairs or deletes it, or that is just opening or closing it.
const commandWait = time.Second

// isMarkedClosed reports whether the meta file says that no process has the run open. The process
// that has a run open has set the status in the meta file to running.
func (d *runDir) isMarkedClosed() bool {
	m, err := d.readMeta()
	return err == nil && m.isWhole && m.info.Status != snapshot.StatusRunning
}

func (d *runDir) lockedError() *snapshot.LockedError {
	e := &snapshot.LockedError{RunID: d.runID}
	if m, _ := d.readMeta(); m.isWhole {
		e.Owner, e.PID = m.info.Owner, m.pid
	}
	return e
}

// Open implements [snapshot.Store]. The journal is a *[Journal]. If the run is
// damaged, Open returns a *snapshot.CorruptError; [Store.Repair] can then restore
// the records before the damage.
func (s *Store) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	d, err := s.checkedDir(ctx, runID)
	if err != nil {
		return nil, err
	}
	defer s.index.change(runID)
	l, err := d.lock(ctx, o.Wait, o.Create)
	if err != nil {
		return nil, err
	}
	j, err := d.locked(l).open(&o, l)
	if err != nil {
		l.release()
		return nil, err
	}
	if j.torn != nil {
		s.warn(runID, j.torn)
	}
	return j, nil
}

// open opens a run that the caller has locked, and begins a generation.
func (d *runDir) open(o *snapshot.OpenOptions, l *fileLock) (*Journal, error) {
	r, err := d.readLocked()
	switch {
	case err != nil:
		return nil, err
	case r.damage != nil:
		return nil, advise(r.damage)
	case !r.found && !o.Create:
		return nil, storekit.NotFoundError(d.runID)
	}
	info := r.run.Info
	if !r.found {
		info = storekit.NewInfo(d.runID, o)
	}
	restored, now, err := storekit.OpenedInfo(info, o)
	if err != nil {
		return nil, err
	}
	j := &Journal{dir: d, lock: l, torn: r.torn, info: now, restored: r.run}
	j.restored.Info = restored
	if err := j.begin(r); err != nil {
		return nil, fmt.Errorf("snapshot: open run %s: %w", d.runID, err)
	}
	j.listen()
	return j, nil
}

// Put implements [snapshot.ArtifactStore]; see [Artifacts].
func (s *Store) Put(ctx context.Context, data []byte) (reference string, err error) {
	return s.artifacts.Put(ctx, data)
}

// Get implements [snapshot.ArtifactStore]; see [Artifacts].
func (s *Store) Get(ctx context.Context, reference string) ([]byte, error) {
	return s.artifacts.Get(ctx, reference)
}
