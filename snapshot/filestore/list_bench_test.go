package filestore_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

var (
	listRuns = flag.Int("list-runs", 2000, "how many runs BenchmarkList has")
	listDir  = flag.String("list-dir", "", "where BenchmarkList makes its runs, or finds them")
)

// manyRuns returns a directory with n completed runs.
func manyRuns(b *testing.B, n int) string {
	b.Helper()
	dir := *listDir
	if dir == "" {
		dir = b.TempDir()
	}
	if entries, err := os.ReadDir(dir + "/runs"); err == nil && len(entries) >= n {
		return dir
	}
	s := newFileStore(b, dir, filestore.WithDisk(fastDisk{filestore.OSDisk}))
	for i := range n {
		j, err := s.Open(b.Context(), fmt.Sprintf("run-%06d", i), snapshot.OpenOptions{Create: true})
		require.NoError(b, err)
		require.NoError(b, j.Append(storetest.Records(1, 5)...))
		require.NoError(b, closeAs(j, snapshot.StatusCompleted))
	}
	return dir
}

// BenchmarkList lists a directory of many runs. Use -list-runs 100000 for a large
// one, and -list-dir to create it only once.
func BenchmarkList(b *testing.B) {
	dir := manyRuns(b, *listRuns)
	b.Run(fmt.Sprintf("watch/runs=%d", *listRuns), func(b *testing.B) {
		s := newFileStore(b, dir)
		for b.Loop() { // until all runs were listed
			seen := 0
			for _, err := range s.Watch(b.Context(), snapshot.WatchOptions{}) {
				require.NoError(b, err)
				if seen++; seen == *listRuns {
					break
				}
			}
		}
	})
	for _, limit := range []int{0, 50} {
		b.Run(fmt.Sprintf("first/runs=%d/limit=%d", *listRuns, limit), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				s := newFileStore(b, dir)
				_, err := s.List(b.Context(), snapshot.Filter{Limit: limit})
				require.NoError(b, err)
			}
		})
		b.Run(fmt.Sprintf("again/runs=%d/limit=%d", *listRuns, limit), func(b *testing.B) {
			b.ReportAllocs()
			s := newFileStore(b, dir)
			for b.Loop() {
				_, err := s.List(b.Context(), snapshot.Filter{Limit: limit})
				require.NoError(b, err)
			}
		})
	}
}
