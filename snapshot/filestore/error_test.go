package filestore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

func TestErrorsNameTheRunTheFileAndTheRemedy(t *testing.T) {
	files := crashedRun(t)
	head := filestore.Header("run", 1, 6)
	second := fmt.Sprintf(", byte %d", 16+len(head))
	const (
		about   = "snapshot: run run: " + journalFile
		damaged = "snapshot: run run is damaged: " + journalFile
		format  = "snapshot: unsupported format: "
		repair  = "; the records before it are whole, and (*filestore.Store).Repair keeps them"
	)
	filler := make([]byte, 24) // a shorter frame cannot hold a record
	p := newPlace(t)
	for name, test := range map[string]struct {
		journal []byte
		kind    error
		want    string
	}{
		"newer":        {filestore.FramesOf(0, []byte("\x01\x82\xa6format\x02\xa4info\x07")), snapshot.ErrFormat, about + ": " + format + "it has format 2, and this version of Reprise reads up to 1; use a newer one"},
		"newer frame":  {filestore.FramesOf(0, head, []byte{9, 1}), snapshot.ErrFormat, about + second + ": " + format + "unknown frame kind 9; use a newer Reprise"},
		"newer record": {filestore.FramesOf(0, head, slices.Concat([]byte{2, 0x92, 7, 7}, filler)), snapshot.ErrFormat, about + second + ": " + format + "the record has version 7, and this version of Reprise reads up to version 1; use a newer Reprise"},
		"no run ID":    {filestore.FramesOf(0, []byte("\x01\x81\xa6format\x01")), snapshot.ErrCorrupt, damaged + ", byte 0, after record 6: the header names no run" + repair},
		"no msgpack":   {filestore.FramesOf(0, []byte{1, 0xc1}), snapshot.ErrCorrupt, damaged + ", byte 0, after record 6: the header: byte 0: malformed msgpack: 0xc1 is not the beginning of a value" + repair},
		"no record":    {filestore.FramesOf(0, head, slices.Concat([]byte{2, 7}, filler)), snapshot.ErrCorrupt, damaged + second + ", after record 6: field 0: byte 0: malformed msgpack: got an integer, want an array" + repair},
		"a hole":       {filestore.FramesOf(0, head, slices.Concat([]byte{2}, encoded(t, 8))), snapshot.ErrCorrupt, damaged + second + ", after record 6: record 8 where record 7 is expected" + repair},
		"two headers":  {filestore.FramesOf(0, head, head), snapshot.ErrCorrupt, damaged + second + ", after record 6: a second header" + repair},
		"empty":        {nil, snapshot.ErrCorrupt, damaged + ", byte 0, after record 6: it has no header" + repair},
		"text":         {[]byte("hello"), snapshot.ErrCorrupt, damaged + ", byte 0, after record 6: it has no header" + repair},
	} {
		p.write(t, files, journalFile, test.journal)
		_, err := p.store.Load(t.Context(), "run")
		require.ErrorIs(t, err, test.kind, name)
		require.EqualError(t, err, test.want, name)
		_, again := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
		require.EqualError(t, again, err.Error(), name)
	}
}

// encoded returns the encoded record with the given number.
func encoded(t *testing.T, seq uint64) []byte {
	t.Helper()
	data, err := snapshot.AppendRecord(nil, &storetest.Records(seq, 1)[0])
	require.NoError(t, err)
	return data
}

func TestAStoreNeedsTheNameOfADirectory(t *testing.T) {
	_, err := filestore.New("")
	require.EqualError(t, err, `snapshot: the name of the directory is empty; want one such as "reprise-data"`)
}

func TestErrorsSayIfAFileIsWhereADirectoryBelongs(t *testing.T) {
	const file, directory = "it is not a file; want a file", "; want a directory"
	for _, name := range []string{"00000001.snapshot", "00000001.journal"} {
		dir := t.TempDir()
		s := newFileStore(t, dir)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "run", name), 0o700))
		_, err := s.Load(t.Context(), "run")
		require.ErrorContains(t, err, "snapshot: read run run: open "+filepath.Join(dir, "runs", "run", name)+": "+file)
		_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{})
		require.ErrorContains(t, err, file)
	}
	dir := t.TempDir()
	s := newFileStore(t, dir)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "lock", "lock"), 0o700))
	_, err := s.Open(t.Context(), "lock", snapshot.OpenOptions{Create: true})
	require.ErrorContains(t, err, "snapshot: open run lock: ")
	require.ErrorContains(t, err, file)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "runs", "run"), nil, 0o600))
	_, err = s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.ErrorContains(t, err, "snapshot: run run: open "+filepath.Join(dir, "runs", "run")+": ")
	require.ErrorContains(t, err, directory)
	for _, in := range []string{filepath.Join(dir, "runs", "run"), filepath.Join(dir, "runs", "run", "sub")} {
		_, err = filestore.New(in)
		require.ErrorContains(t, err, filepath.Join(dir, "runs", "run"))
		require.ErrorContains(t, err, directory)
	}
}
