package snapshot_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
)

func TestErrorsNameRunAndFileAndSayWhatToDo(t *testing.T) {
	files := crashedRun(t)
	head := snapshot.Bodies(files[journalFile])[0]
	const repair = "; snapshot.Repair saves what can be read"
	p := newPlace(t)
	for name, test := range map[string]struct {
		journal []byte
		kind    error
		want    string
	}{
		"newer":        {snapshot.FramesOf([]byte("\x01\x82\xa6format\x02\xa4info\x07")), snapshot.ErrFormat, ": it has format 2, and this version of Reprise reads up to 1: use a newer one"},
		"newer frame":  {snapshot.FramesOf(head, []byte{9, 1}), snapshot.ErrFormat, ", byte 126: frames of kind 9 are not known to this version of Reprise: use a newer one"},
		"newer record": {snapshot.FramesOf(head, []byte{2, 0x91, 7}), snapshot.ErrFormat, ", byte 126: the record has version 7 and this version of Reprise reads up to version 1; use a newer Reprise"},
		"of nobody":    {snapshot.FramesOf([]byte("\x01\x81\xa6format\x01")), snapshot.ErrCorrupt, ", byte 0, after record 6: the header names no run" + repair},
		"no msgpack":   {snapshot.FramesOf([]byte{1, 0xc1}), snapshot.ErrCorrupt, ", byte 0, after record 6: the header: codec: malformed msgpack: 0xc1 does not begin a value" + repair},
		"no record":    {snapshot.FramesOf(head, []byte{2, 7}), snapshot.ErrCorrupt, ", byte 126, after record 6: field 0: byte 0: malformed msgpack: got an integer, want an array" + repair},
		"empty":        {nil, snapshot.ErrCorrupt, ", byte 0, after record 6: no header" + repair},
		"text":         {[]byte("hello"), snapshot.ErrCorrupt, ", byte 0, after record 6: no header" + repair},
	} {
		p.write(t, files, journalFile, test.journal)
		about := "snapshot: run run: "
		if errors.Is(test.kind, snapshot.ErrCorrupt) {
			about = "snapshot: run run is damaged: "
		}
		_, err := p.store.Load(t.Context(), "run")
		require.ErrorIs(t, err, test.kind, name)
		require.EqualError(t, err, about+journalFile+test.want, name)
		_, again := p.store.Open(t.Context(), "run", snapshot.OpenOptions{})
		require.EqualError(t, again, err.Error(), name)
	}
}

func TestWhatIsInThePlaceOfAFileOrADirectoryIsToldAsSuch(t *testing.T) {
	const file, directory = "is a directory; a file belongs there: put the directory elsewhere", "; a directory belongs there: put the file elsewhere"
	for _, name := range []string{"snapshot", "journal-00000001"} {
		dir := t.TempDir()
		s := newFileStore(t, dir)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "runs", "run", name), 0o700))
		_, err := s.Load(t.Context(), "run")
		require.ErrorContains(t, err, "snapshot: read run run: read "+filepath.Join(dir, "runs", "run", name)+": "+file)
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
	require.ErrorContains(t, err, "snapshot: open run run: ")
	require.ErrorContains(t, err, directory)
	for _, in := range []string{filepath.Join(dir, "runs", "run"), filepath.Join(dir, "runs", "run", "sub")} {
		_, err = snapshot.NewFileStore(in)
		require.ErrorContains(t, err, filepath.Join(dir, "runs", "run"))
		require.ErrorContains(t, err, directory)
	}
}
