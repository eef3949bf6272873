package filestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// What the store's tests need in addition to the API.

type (
	Disk      = disk
	DirOpener = dirOpener
	DiskFile  = diskFile
	OpenFile  = openFile
)

// OSDisk is the disk that stores use.
var OSDisk Disk = osDisk{}

// WithDisk makes a store use the given disk.
func WithDisk(d Disk) Option { return func(s *Store) { s.disk = d } }

// WithCompactFrom sets the size above which journals are compacted.
func WithCompactFrom(size int64) Option { return func(s *Store) { s.compactFrom = size } }

// WithCompactAtClose sets the size above which journals are compacted when their run is closed.
func WithCompactAtClose(size int64) Option { return func(s *Store) { s.compactAtClose = size } }

// WaitForCompaction waits until no compaction is running.
func WaitForCompaction(j snapshot.Journal) { j.(*Journal).wait.Wait() }

// Abandon releases a journal without closing it, as the end of the process does.
func Abandon(j snapshot.Journal) {
	WaitForCompaction(j)
	j.(*Journal).closing.Do(func() {
		j.(*Journal).stop()
		j.(*Journal).listening.Wait()
		_ = j.(*Journal).file.Close()
		_ = j.(*Journal).lock.f.Close()
	})
}

// DirName returns the name of a run's directory.
var DirName = dirName

// RunIDOf returns the run ID for the name of a directory.
var RunIDOf = runIDOf

// Frames returns the offsets of the frames in a file.
func Frames(data []byte) (offsets []int64) {
	for f := range frameReaderOf("", data).frames() {
		offsets = append(offsets, f.offset)
	}
	return offsets
}

// Bodies returns the payloads of the frames in a file.
func Bodies(data []byte) (bodies [][]byte) {
	for f := range frameReaderOf("", data).frames() {
		bodies = append(bodies, append([]byte{byte(f.kind)}, f.body...))
	}
	return bodies
}

// FramesOf returns a frame for each nonempty payload. The frames are for a file that is on disk up
// to the offset synced.
func FramesOf(synced int64, payloads ...[]byte) (out []byte) {
	for _, p := range payloads {
		if len(p) > 0 {
			at := len(out)
			out = append(beginFrame(out, frameKind(p[0])), p[1:]...)
			out, _ = endFrame(out, at, int64(at), min(synced, int64(at)))
		}
	}
	return out
}

// Header returns the payload of a header.
func Header(runID string, covers, carried uint64) []byte {
	data, _ := appendHeader(nil, &header{covers: covers, carried: carried, info: snapshot.Info{RunID: runID, Status: snapshot.StatusRunning, Generation: 1}})
	return data[frameHead:]
}

// ShareLock takes a shared lock, as a check for the owner of the lock does.
func ShareLock(t testing.TB, name string) (release func()) {
	f, err := os.Open(name)
	if err == nil {
		err = flock(f, lockShared)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = f.Close() }
}

// IsNamed opens a lock file, calls f, and reports whether the opened file still has that name.
func IsNamed(t testing.TB, name string, f func()) bool {
	l, err := openLock(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	locked, err := l.Stat()
	if err != nil {
		t.Fatal(err)
	}
	f()
	named, err := (&fileLock{f: l, file: locked, name: name}).isNamed()
	if err != nil {
		t.Fatal(err)
	}
	return named
}

// EncodeMessage returns the contents of a message's file.
func EncodeMessage(t testing.TB, runID string, m snapshot.Message) []byte {
	data, err := encodeMessage(runID, &m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// DecodeMessage reads a message's file.
var DecodeMessage = decodeMessage

// OnWatch makes the store call f before it asks the system to watch a directory. Watching does not
// return until the system has been asked. OnWatch must be called before a run is opened.
func OnWatch(s *Store, f func()) {
	s.notices.mkdir = func(name string) error {
		f()
		return osDisk{}.Mkdir(name)
	}
}

// Watching returns the number of directories that the system watches for a store,
// and whether the store uses the system for this at all.
func Watching(s *Store) (n int, asked bool) {
	s.notices.busy.Lock()
	defer s.notices.busy.Unlock()
	s.notices.mu.Lock()
	defer s.notices.mu.Unlock()
	return len(s.notices.notify), s.notices.watcher != nil
}

// Interpret returns the run in a snapshot and a journal, either of which may be nil.
func Interpret(runID string, compacted, journal []byte) (*snapshot.Run, *snapshot.CorruptError, error) {
	var l listing
	files := make(memoryDisk)
	if compacted != nil {
		l.snapshots = []uint64{1}
		files[snapshotName(1)] = compacted
	}
	if journal != nil {
		l.journals = []uint64{2}
		files[journalName(2)] = journal
	}
	r, err := (&Store{disk: files}).dir(runID).collect(context.Background(), l)
	if err != nil {
		return nil, nil, err
	}
	return r.run, r.damage, nil
}

// A memoryDisk holds files by the last element of their names, for reading only.
type memoryDisk map[string][]byte

func (d memoryDisk) Open(name string) (openFile, int64, error) {
	data, ok := d[filepath.Base(name)]
	if !ok {
		return nil, 0, fs.ErrNotExist
	}
	return memoryFile{data}, int64(len(data)), nil
}

func (memoryDisk) ReadDir(string) ([]fs.DirEntry, error) { return nil, errors.ErrUnsupported }
func (memoryDisk) Create(string) (diskFile, error)       { return nil, errors.ErrUnsupported }
func (memoryDisk) OpenToWrite(string) (diskFile, error)  { return nil, errors.ErrUnsupported }
func (memoryDisk) Rename(_, _ string) error              { return errors.ErrUnsupported }
func (memoryDisk) Link(_, _ string) error                { return errors.ErrUnsupported }
func (memoryDisk) Remove(string) error                   { return errors.ErrUnsupported }
func (memoryDisk) Mkdir(string) error                    { return errors.ErrUnsupported }
func (memoryDisk) SyncDir(string) error                  { return errors.ErrUnsupported }
func (memoryDisk) SyncTogether(diskFile) bool            { return false }

type memoryFile struct{ bytesSource }

func (f memoryFile) Stat() (fs.FileInfo, error) { return f, nil }
func (memoryFile) Close() error                 { return nil }
func (memoryFile) Name() string                 { return "" }
func (f memoryFile) Size() int64                { return int64(len(f.bytesSource)) }
func (memoryFile) Mode() fs.FileMode            { return 0 }
func (memoryFile) ModTime() time.Time           { return time.Time{} }
func (memoryFile) IsDir() bool                  { return false }
func (memoryFile) Sys() any                     { return nil }

// Compact starts a compaction unless one is already running.
func Compact(j snapshot.Journal) {
	f := j.(*Journal)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.compactAt = 0
	f.maybeCompact()
}
