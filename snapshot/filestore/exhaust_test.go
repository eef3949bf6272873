package filestore_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// A countingDisk counts the files opened and the bytes read.
type countingDisk struct {
	filestore.Disk
	opened, others atomic.Int64 // meta files, and other files
	read           atomic.Int64
}

func (d *countingDisk) Open(name string) (filestore.OpenFile, int64, error) {
	if filepath.Base(name) == "meta" {
		d.opened.Add(1)
	} else {
		d.others.Add(1)
	}
	f, size, err := d.Disk.Open(name)
	if err != nil {
		return nil, 0, err
	}
	return countingFile{f, d}, size, nil
}

type countingFile struct {
	filestore.OpenFile
	disk *countingDisk
}

func (f countingFile) ReadAt(data []byte, offset int64) (int, error) {
	n, err := f.OpenFile.ReadAt(data, offset)
	f.disk.read.Add(int64(n))
	return n, err
}

// A stretch is data at an offset in a file.
type stretch struct {
	at   int64
	data []byte
}

// sparse writes a file of the given size with holes between the stretches.
func sparse(t testing.TB, name string, size int64, stretches ...stretch) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(name), 0o700))
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	require.NoError(t, err)
	for _, s := range stretches {
		_, err := f.WriteAt(s.data, s.at)
		require.NoError(t, err)
	}
	require.NoError(t, f.Truncate(size))
	require.NoError(t, f.Close())
}

// headOf returns the head of a frame at an offset, with a payload of zeros.
func headOf(at int64, length uint32) []byte {
	head := make([]byte, 16)
	binary.BigEndian.PutUint32(head[4:], length)
	binary.BigEndian.PutUint32(head[8:], 1<<32-1)
	binary.BigEndian.PutUint32(head[12:], 0xdead)
	sum := append(binary.BigEndian.AppendUint64(nil, uint64(at)), head[4:]...)
	binary.BigEndian.PutUint32(head, crc32.Checksum(sum, crc32.MakeTable(crc32.Castagnoli)))
	return head
}

func TestNoFileCanExhaustAReader(t *testing.T) {
	const gigabyte = 1 << 30
	dense, tiny := int64(256<<10), 15_000
	if *long {
		dense, tiny = 40<<20, 6_000_000
	}
	run := crashedRun(t)
	journal, document := run[journalFile], run[snapshotFile]
	header := filestore.FramesOf(0, filestore.Bodies(journal)[0])
	of := func(b byte) []stretch { return []stretch{{0, bytes.Repeat([]byte{b}, int(dense))}} }
	frames := make([][]byte, 0, tiny)
	frames = append(frames, filestore.Bodies(journal)[0])
	for range tiny {
		frames = append(frames, []byte{2})
	}
	small := filestore.FramesOf(0, frames...)
	zeros := filestore.FramesOf(0, slices.Concat([][]byte{filestore.Bodies(journal)[0]}, [][]byte{append([]byte{2}, make([]byte, tiny)...)})...)
	noRecords, smallest := [][]byte{filestore.Bodies(journal)[0]}, [][]byte{filestore.Bodies(journal)[0]}
	for seq := range uint64(tiny) {
		rec, err := snapshot.AppendRecord([]byte{2}, &record.Record{Seq: seq + 1})
		require.NoError(t, err)
		noRecords, smallest = append(noRecords, append([]byte{2}, make([]byte, 24)...)), append(smallest, rec)
	}
	short, least := filestore.FramesOf(0, noRecords...), filestore.FramesOf(0, smallest...)
	promised := document[:len(document)/2]
	var heads []stretch // heads of long frames that are not inside another frame
	for at := int64(1000); at < dense/4; at += 16 {
		heads = append(heads, stretch{at, headOf(at, gigabyte-1)})
	}
	claims := make([]byte, dense/4)
	for _, h := range heads {
		copy(claims[h.at:], h.data)
	}
	inside := make([]byte, dense/4)
	for at := int64(1000); at < int64(len(inside))-16; at += 16 {
		copy(inside[at:], headOf(at, uint32(int64(len(inside))-at-16)))
	}
	table := make([]byte, 20) // the table of a document with a block of 8 GB
	binary.BigEndian.PutUint64(table, 8*gigabyte-30)
	binary.BigEndian.PutUint32(table[12:], 1)
	binary.BigEndian.PutUint32(table[16:], crc32.Checksum(table[:16], crc32.MakeTable(crc32.Castagnoli)))
	n := 0
	for name, test := range map[string]struct {
		size      int64
		stretches []stretch
	}{
		"zeros":                      {dense, of(0)},
		"ones":                       {dense, of(1)},
		"bytes without a meaning":    {dense, of(0xc1)},
		"all bits":                   {dense, of(0xff)},
		"tiny frames":                {int64(len(small)), []stretch{{0, small}}},
		"tiny records":               {int64(len(zeros)), []stretch{{0, zeros}}},
		"frames of no record":        {int64(len(short)), []stretch{{0, short}}},
		"frames of a small record":   {int64(len(least)), []stretch{{0, least}}},
		"a hole":                     {8 * gigabyte, nil},
		"a hole after a header":      {8 * gigabyte, []stretch{{0, header}}},
		"a hole after a journal":     {8 * gigabyte, []stretch{{0, journal}}},
		"a hole after a document":    {8 * gigabyte, []stretch{{0, document}}},
		"a document after a hole":    {8 * gigabyte, []stretch{{8*gigabyte - int64(len(document)), document}}},
		"a document around a hole":   {8 * gigabyte, []stretch{{0, document[:200]}, {8*gigabyte - 20, table}}},
		"half a document":            {int64(len(promised)), []stretch{{0, promised}}},
		"a frame of a gigabyte":      {8 * gigabyte, []stretch{{0, header}, {int64(len(header)), headOf(int64(len(header)), gigabyte)}}},
		"a frame after a hole":       {8 * gigabyte, []stretch{{0, header}, {4 * gigabyte, headOf(4*gigabyte, 100)}}},
		"heads of long frames":       {8 * gigabyte, []stretch{{0, header}, {int64(len(header)), claims[len(header):]}}},
		"heads up to the file's end": {int64(len(inside)), []stretch{{0, header}, {int64(len(header)), inside[len(header):]}}},
	} {
		for _, file := range []string{journalFile, snapshotFile, metaFile, "lock", "inbox/" + waitingID()} {
			if n++; !testkit.Sampled(n) {
				continue
			}
			t.Run(name+" as "+file, func(t *testing.T) {
				p := place{dir: t.TempDir()} // on disk, because memory may be scarce
				disk := &countingDisk{Disk: fastDisk{filestore.OSDisk}}
				s := newFileStore(t, p.dir, filestore.WithDisk(disk), filestore.WithWarnings(func(string, error) {}))
				p.write(t, run, "", nil)
				sparse(t, filepath.Join(p.dir, "runs", "run", file), test.size, test.stretches...)
				data := int64(0)
				for _, s := range test.stretches {
					data += int64(len(s.data))
				}
				ctx, stop := context.WithCancelCause(t.Context())
				stop(errLooked)
				for op, f := range map[string]func() error{
					"load":     func() error { _, err := s.Load(t.Context(), "run"); return err },
					"info":     func() error { _, err := s.Info(t.Context(), "run"); return err },
					"list":     func() error { _, err := s.List(t.Context(), snapshot.Filter{}); return err },
					"messages": func() error { _, err := s.Messages(t.Context(), "run"); return err },
					"garbage":  func() error { _, err := s.Garbage(t.Context(), 0); return err },
					"follow": func() (last error) {
						for _, last = range s.Follow(ctx, "run", snapshot.Cursor{}) {
						}
						return last
					},
					"open": func() error {
						j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{})
						if err == nil {
							err = closeAs(j, snapshot.StatusPaused)
							p.write(t, run, "", nil)
							sparse(t, filepath.Join(p.dir, "runs", "run", file), test.size, test.stretches...)
						}
						return err
					},
				} {
					requireBounded(t, disk, op, data, func() {
						err := f()
						if err != nil && !errors.Is(err, snapshot.ErrCorrupt) && !errors.Is(err, snapshot.ErrFormat) && !errors.Is(err, errLooked) {
							t.Errorf("%s: %v", op, err)
						}
					})
				}
				requireBounded(t, disk, "repair", data, func() {
					_, err := s.Repair(t.Context(), "run")
					require.NoError(t, err)
				})
				_, err := s.Load(t.Context(), "run")
				require.NoError(t, err, "after the repair")
			})
		}
	}
}

// requireBounded requires that the amount f reads and allocates is bounded by the amount of data,
// however large a file appears to be.
func requireBounded(t *testing.T, disk *countingDisk, what string, data int64, f func()) {
	t.Helper()
	const least = 160 << 20 // twice the maximum total size of the holes in a file
	disk.read.Store(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	require.LessOrEqual(t, disk.read.Load(), least+12*data, "%s reads", what)
	require.LessOrEqual(t, int64(after.TotalAlloc-before.TotalAlloc), 3*least+20*data, "%s allocates", what)
}
