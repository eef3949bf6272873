package snapshot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// FileArtifacts is an [ArtifactStore] in a directory: artifacts/ab/cdef… is
// what has the SHA-256 abcdef…. It is for many goroutines and processes.
type FileArtifacts struct {
	dir  string
	disk disk
}

// NewFileArtifacts returns the artifact store in a directory, which is made if
// it is not there. A [FileStore] of the same directory has it too.
func NewFileArtifacts(dir string) (*FileArtifacts, error) {
	return newFileArtifacts(dir, osDisk{})
}

func newFileArtifacts(dir string, d disk) (*FileArtifacts, error) {
	a := &FileArtifacts{dir: filepath.Join(dir, "artifacts"), disk: d}
	if err := makeDir(d, dir); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if err := mkdirSynced(d, a.dir); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return a, nil
}

// reference is the name of data.
func reference(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// isReference reports whether ref is 64 lower-case hexadecimal digits: only
// that becomes a path.
func isReference(ref string) bool {
	for i := range len(ref) {
		if c := ref[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(ref) == 2*sha256.Size
}

func noArtifact(ref string) error {
	return &kindError{fmt.Sprintf("snapshot: no artifact %.80q", ref), ErrNotFound}
}

func checkArtifact(ref string, data []byte) error {
	if found := reference(data); found != ref {
		return fmt.Errorf("%w: artifact %s: what is there has the hash %s", ErrCorrupt, ref, found)
	}
	return nil
}

// tmpNumber makes the names of temporary files different in one process.
var tmpNumber atomic.Uint64

// Put implements [ArtifactStore]. The file is written under a temporary name
// and synced before it gets its own, so that what has the name of an artifact
// is all of it; then the directories are synced.
//
// What is there already is not written again, but made young, so that GC does
// not take it before a record names it. The lock keeps GC from looking at its
// age before that and removing it after.
func (a *FileArtifacts) Put(ctx context.Context, data []byte) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	ref := reference(data)
	l, err := a.lock(ctx, lockShared)
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	if err := a.put(ref, data); err != nil {
		return "", fmt.Errorf("snapshot: artifact %s: %w", ref, err)
	}
	return ref, nil
}

func (a *FileArtifacts) put(ref string, data []byte) error {
	dir, name := a.path(ref)
	if there, err := os.ReadFile(name); err == nil && bytes.Equal(there, data) {
		now := time.Now()
		if err := os.Chtimes(name, now, now); err != nil {
			return err
		}
		// Whoever wrote it may have got no further than the renaming.
		return errors.Join(a.disk.SyncDir(dir), a.disk.SyncDir(a.dir))
	}
	if err := mkdirSynced(a.disk, dir); err != nil {
		return err
	}
	tmp := fmt.Sprintf("%s.%d-%d%s", name, os.Getpid(), tmpNumber.Add(1), tmpSuffix)
	if err := writeSynced(a.disk, tmp, data); err != nil {
		return err
	}
	if err := a.disk.Rename(tmp, name); err != nil {
		return errors.Join(err, remove(a.disk, tmp))
	}
	return a.disk.SyncDir(dir)
}

func (a *FileArtifacts) path(ref string) (dir, name string) {
	dir = filepath.Join(a.dir, ref[:2])
	return dir, filepath.Join(dir, ref[2:])
}

// Get implements [ArtifactStore].
func (a *FileArtifacts) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !isReference(ref) {
		return nil, noArtifact(ref)
	}
	_, name := a.path(ref)
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noArtifact(ref)
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: artifact %s: %w", ref, err)
	}
	if err := checkArtifact(ref, data); err != nil {
		return nil, err
	}
	return data, nil
}

// lock takes the lock of the artifacts, shared by those who put and exclusive
// for who removes. Each has it for as long as one artifact takes.
func (a *FileArtifacts) lock(ctx context.Context, how int) (*os.File, error) {
	f, err := openLock(filepath.Join(a.dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := flock(f, how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, errors.Join(err, f.Close())
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}

// GC removes the artifacts that no run refers to and that are older than
// grace, and returns how many. Runs may go on meanwhile. If a run cannot be
// read, nothing is removed, for nobody knows what it refers to.
//
// Grace is how much later than Put a record that names the artifact may be
// appended: an hour is plenty. It makes this safe. What is removed was put
// for the last time more than grace before GC began to read the runs: Put
// makes what is there already young, and its lock excludes removing it in that
// moment. So a record that names it had been appended by the time GC began, to
// a run that was there, and GC reads everything that was appended before it
// began. The one who names artifacts without putting them is a fork; it must
// not begin while the run that it is made from is deleted.
func (s *FileStore) GC(ctx context.Context, grace time.Duration) (removed int, err error) {
	before := time.Now().Add(-grace)
	named, err := s.references(ctx)
	if err != nil {
		return 0, err
	}
	entries, err := os.ReadDir(s.artifacts.dir)
	if err != nil {
		return 0, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		n, err := s.artifacts.sweep(ctx, e.Name(), named, before)
		removed += n
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// references are those of all runs.
func (s *FileStore) references(ctx context.Context) (map[string]bool, error) {
	entries, err := os.ReadDir(s.path("runs"))
	if err != nil {
		return nil, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	named := make(map[string]bool)
	for _, e := range entries {
		if !e.IsDir() || CheckRunID(e.Name()) != nil {
			continue
		}
		sn, err := s.Load(ctx, e.Name())
		if errors.Is(err, ErrNotFound) {
			continue // deleted meanwhile, or never begun
		} else if err != nil {
			return nil, fmt.Errorf("snapshot: artifacts that are still referred to are not known: %w", err)
		}
		for i := range sn.Records {
			if d := sn.Records[i].Detail; d != nil && d.Artifact != "" {
				named[d.Artifact] = true
			}
		}
	}
	return named, nil
}

// sweep removes what is old and not named from one directory, temporary files
// too.
func (a *FileArtifacts) sweep(ctx context.Context, dir string, named map[string]bool, before time.Time) (removed int, err error) {
	entries, err := os.ReadDir(filepath.Join(a.dir, dir))
	if err != nil {
		return 0, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	for _, e := range entries {
		ref := dir + e.Name()
		if named[ref] || !isReference(ref) && filepath.Ext(ref) != tmpSuffix {
			continue
		}
		gone, err := a.removeOld(ctx, filepath.Join(a.dir, dir, e.Name()), before)
		if err != nil {
			return removed, err
		}
		if gone && isReference(ref) {
			removed++
		}
	}
	return removed, nil
}

// removeOld removes a file that is older than before.
func (a *FileArtifacts) removeOld(ctx context.Context, name string, before time.Time) (bool, error) {
	if stat, err := os.Stat(name); err != nil || !stat.ModTime().Before(before) {
		return false, nil // without the lock, to spare it
	}
	l, err := a.lock(ctx, lockExclusive)
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close() }()
	if stat, err := os.Stat(name); err != nil || !stat.ModTime().Before(before) {
		return false, nil
	}
	if err := remove(a.disk, name); err != nil {
		return false, fmt.Errorf("snapshot: artifacts: %w", err)
	}
	return true, nil
}
