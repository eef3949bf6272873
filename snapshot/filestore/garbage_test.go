package filestore_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/filestore"
)

// garbage returns several kinds of data, by name, that contain no frame.
func garbage(size int) map[string][]byte {
	random := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(random)
	return map[string][]byte{
		"random":           random,
		"text":             bytes.Repeat([]byte("what is this? "), size/14),
		"possible numbers": bytes.Repeat([]byte{0, 0, 0, 9}, size/4),
		"made-up numbers":  bytes.Repeat([]byte{0, 0, 0, 1}, size/4), // which could be a head at any offset
	}
}

// writeGarbage writes a run whose journal consists of a header followed by garbage.
func writeGarbage(t testing.TB, p place, data []byte) {
	t.Helper()
	run := crashedRun(t)
	header := filestore.FramesOf(0, filestore.Bodies(run[journalFile])[0])
	p.write(t, run, journalFile, append(header, data...))
}

func TestGarbageAfterAJournalIsReadOnce(t *testing.T) {
	const size = 3 << 20
	for name, data := range garbage(size) {
		p := place{dir: t.TempDir()}
		disk := &countingDisk{Disk: fastDisk{filestore.OSDisk}}
		s := newFileStore(t, p.dir, filestore.WithDisk(disk), filestore.WithWarnings(func(string, error) {}))
		writeGarbage(t, p, data)
		_, torn, err := s.Verify(t.Context(), "run")
		require.NoError(t, err, name)
		require.NotNil(t, torn, name)
		require.Less(t, disk.read.Load(), int64(size+size/4), name)
	}
}
