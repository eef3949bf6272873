package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/codec"
)

// What the tests of the stores need beside the API.

type (
	Disk     = disk
	DiskFile = diskFile
)

// OSDisk is the disk that stores use.
var OSDisk Disk = osDisk{}

// WithDisk has a store use another disk.
func WithDisk(d Disk) FileOption { return func(s *FileStore) { s.disk = d } }

// WithCompactFrom sets the size from which on journals are compacted.
func WithCompactFrom(size int64) FileOption { return func(s *FileStore) { s.compactFrom = size } }

// WaitForCompaction returns when no compaction is under way.
func WaitForCompaction(j Journal) { j.(*FileJournal).wait.Wait() }

// Abandon lets go of a journal as the end of its process would.
func Abandon(j Journal) {
	WaitForCompaction(j)
	j.(*FileJournal).closing.Do(func() {
		_ = j.(*FileJournal).file.Close()
		_ = j.(*FileJournal).lock.f.Close()
	})
}

// Frames are the offsets at which frames of a file begin.
func Frames(data []byte) (offsets []int64) {
	all, _, _ := frames("", data)
	for _, f := range all {
		offsets = append(offsets, f.offset)
	}
	return offsets
}

// Bodies are the payloads of the frames of a file.
func Bodies(data []byte) (bodies [][]byte) {
	all, _, _ := frames("", data)
	for _, f := range all {
		bodies = append(bodies, append([]byte{byte(f.kind)}, f.body...))
	}
	return bodies
}

// FramesOf makes frames of payloads that are not empty.
func FramesOf(payloads ...[]byte) (out []byte) {
	for _, p := range payloads {
		if len(p) > 0 {
			at := len(out)
			out = append(beginFrame(out, frameKind(p[0])), p[1:]...)
			out, _ = endFrame(out, at, int64(at))
		}
	}
	return out
}

// WriteNewer makes the directory of a run in a format that is not known yet.
func WriteNewer(t testing.TB, dir string) {
	data, err := appendFrame(nil, 0, frameHeader, map[string]any{"format": FormatVersion + 1, "info": 7})
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "journal-00000001"), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Interpret reads the files of a run, as Load does, and what Repair would
// save of them.
func Interpret(runID string, compacted, journal []byte) (records, salvaged []core.Record, err error) {
	in := files{snapshot: compacted}
	if journal != nil {
		in.journals, in.data = []uint64{2}, [][]byte{journal}
	}
	r, err := interpret(runID, in)
	if err != nil {
		return nil, nil, err
	}
	records, err = r.decode()
	return records, r.salvage(), err
}

// InterpretLazily reads the files of a run as LoadLazy does.
func InterpretLazily(runID string, compacted, journal []byte) (*Lazy, error) {
	in := files{snapshot: compacted}
	if journal != nil {
		in.journals, in.data = []uint64{2}, [][]byte{journal}
	}
	r, err := interpret(runID, in)
	if err != nil {
		return nil, err
	}
	l, err := r.index()
	if err == nil {
		l.RunID = runID // as its header says, if it has one
	}
	return l, err
}

// ShareLock takes a lock as those do who look whether somebody has it.
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

// IsNamed opens a lock file, has f done, and reports whether the file still
// has the name.
func IsNamed(t testing.TB, name string, f func()) bool {
	l, err := openLock(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	f()
	return isNamed(l, name)
}

// EncodeMessage makes the file of a message.
func EncodeMessage(t testing.TB, runID string, m Message) []byte {
	data, err := encodeMessage(runID, &m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// DecodeMessage reads the file of a message.
var DecodeMessage = decodeMessage

// Watching is how many inboxes of a store the system tells of; it reports
// false if the system is not asked at all.
func Watching(s *FileStore) (n int, asked bool) {
	s.notices.busy.Lock()
	defer s.notices.busy.Unlock()
	s.notices.mu.Lock()
	defer s.notices.mu.Unlock()
	return len(s.notices.tellTo), s.notices.watcher != nil
}

// CheckRecord is DecodeRecord, with its error, for one who only wants the head.
func CheckRecord(data []byte) (head Head, err error) {
	check := func(e extent) error {
		d := newDecoding(migrations)
		defer d.release()
		d.extent = e
		in := codec.NewReader(data)
		defer in.Release()
		if err := d.DecodeMsgpack(in.Decoder()); err != nil {
			return recordError(err)
		}
		if e != headOnly && in.Len() > 0 {
			return fmt.Errorf("%w: byte %d: %d bytes after the record", ErrCorrupt, in.Offset(), in.Len())
		}
		head = Head{d.record, d.inputHash}
		return nil
	}
	if err := check(checkOnly); err != nil {
		return head, err
	}
	return head, check(headOnly)
}
