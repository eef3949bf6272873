package filestore_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A process that is killed right after it has begun a journal leaves behind the previous journal,
// which the new one covers. This may happen to several processes in turn.
func TestJournalsLeftByCrashesAreIgnored(t *testing.T) {
	for name, compactFrom := range map[string]int64{"without a snapshot": 1 << 20, "with one": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := filestore.New(dir, filestore.WithCompactFrom(compactFrom))
			require.NoError(t, err)
			left := make(map[string][]byte) // every journal that has existed
			keep := func() {
				files, err := filepath.Glob(filepath.Join(dir, "runs", "run", "*.journal"))
				require.NoError(t, err)
				for _, file := range files {
					data, err := os.ReadFile(file)
					require.NoError(t, err)
					left[file] = data
				}
			}
			n := 0
			for range 4 {
				j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
				require.NoError(t, err)
				requireRecords(t, decoded(t, j.Restored()).Records, n)
				for range 2 {
					n++
					require.NoError(t, j.Append(storetest.Records(uint64(n), 1)...))
					filestore.WaitForCompaction(j)
				}
				filestore.Abandon(j)
				keep()
				for file, data := range left {
					require.NoError(t, os.WriteFile(file, data, 0o600))
				}
			}
			requireRecords(t, load(t, s, "run").Records, n)
		})
	}
}
