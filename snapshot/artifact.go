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
