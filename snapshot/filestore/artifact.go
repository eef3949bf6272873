package filestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/reprise-go/reprise/internal/errkind"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Artifacts is a [snapshot.ArtifactStore] in a directory. The file artifacts/ab/cdef…
// contains the data whose SHA-256 hash is abcdef…. It is safe for
// concurrent use by multiple goroutines and processes.
type Artifacts struct {
	dir  string
	disk disk
}

// NewArtifacts returns the artifact store in a directory, and creates the directory if it does not
// exist. A [Store] in the same directory shares its artifacts.
func NewArtifacts(dir string) (*Artifacts, error) {
	return newArtifacts(dir, osDisk{})
}

func newArtifacts(dir string, d disk) (*Artifacts, error) {
	a := &Artifacts{dir: filepath.Join(dir, "artifacts"), disk: d}
	if err := makeDir(d, dir); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	if err := mkdirSynced(d, a.dir); err != nil {
		return nil, fmt.Errorf("snapshot: %w", err)
	}
	return a, nil
}

func noArtifact(ref string) error {
	return errkind.New(snapshot.ErrNotFound, "snapshot: no artifact %.80q", ref)
}

func checkArtifact(ref string, data []byte) error {
	if found := storekit.Reference(data); found != ref {
		return fmt.Errorf("%w: artifact %s: the stored data has the hash %s", snapshot.ErrCorrupt, ref, found)
	}
	return nil
}

// maxArtifact is the maximum size of an artifact.
const maxArtifact = 4 << 30

// Put implements [snapshot.ArtifactStore]. It writes the file under a temporary name, syncs it, and
// then renames it, so that a file with the name of an artifact is always complete. Then it syncs
// the directories.
//
// If the artifact exists, Put does not write it again, but renews the modification time of its
// file, so that GC does not remove it before a record refers to it. The lock prevents GC from
// checking the time before the renewal and removing the file after it.
func (a *Artifacts) Put(ctx context.Context, data []byte) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	if int64(len(data)) > maxArtifact {
		return "", fmt.Errorf("snapshot: the artifact has %d bytes; want at most %d", len(data), int64(maxArtifact))
	}
	ref := storekit.Reference(data)
	l, err := a.lock(ctx, lockShared)
	if err != nil {
		return "", err
	}
	defer func() { _ = l.Close() }()
	if err := a.put(ref, data); err != nil {
		return "", fmt.Errorf("snapshot: artifact %s: %w", ref, unavailable(err))
	}
	return ref, nil
}

func (a *Artifacts) put(ref string, data []byte) error {
	dir, name := a.path(ref)
	if err := checkDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if there, err := readFile(a.disk, name, int64(len(data))); err == nil && bytes.Equal(there, data) {
		now := time.Now()
		if err := os.Chtimes(name, now, now); err != nil {
			return err
		}
		// The process that renamed the file may have ended before syncing the directories.
		return errors.Join(a.disk.SyncDir(dir), a.disk.SyncDir(a.dir))
	}
	if err := mkdirSynced(a.disk, dir); err != nil {
		return err
	}
	_, err := replace(a.disk, tmpName(name), name, bytes.NewReader(data))
	return err
}

func (a *Artifacts) path(ref string) (dir, name string) {
	dir = filepath.Join(a.dir, ref[:2])
	return dir, filepath.Join(dir, ref[2:])
}

// Get implements [snapshot.ArtifactStore].
func (a *Artifacts) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if !storekit.IsReference(ref) {
		return nil, noArtifact(ref)
	}
	dir, name := a.path(ref)
	err := checkDir(dir)
	var data []byte
	if err == nil {
		data, err = readFile(a.disk, name, maxArtifact)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noArtifact(ref)
	} else if err != nil {
		return nil, fmt.Errorf("snapshot: artifact %s: %w", ref, unavailable(err))
	}
	if err := checkArtifact(ref, data); err != nil {
		return nil, err
	}
	return data, nil
}

// lock locks the artifacts. Put takes a shared lock and GC an exclusive one, each for one artifact
// at a time.
func (a *Artifacts) lock(ctx context.Context, how int) (*os.File, error) {
	f, err := openLock(filepath.Join(a.dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("snapshot: artifacts: %w", unavailable(err))
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		err := flock(f, how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, errHeld) {
			return nil, errors.Join(unavailable(err), f.Close())
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
