package filestore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// damagedLate creates a run of three generations with 3 records each. The function damage damages
// the run after record 4 and repairs it; if lost is true, it also removes the meta file.
func damagedLate(t *testing.T, lost bool) (r *changingRun, s *filestore.Store, damage func()) {
	t.Helper()
	r = &changingRun{dir: t.TempDir()}
	s = notCompacting(t, r.dir)
	for range 3 {
		r.extend(t, s, "old", 3, snapshot.StatusPaused)
	}
	return r, s, func() {
		t.Helper()
		run := filepath.Join(r.dir, "runs", "run")
		journal := filepath.Join(run, "00000001.journal")
		data, err := os.ReadFile(journal)
		require.NoError(t, err)
		frames := filestore.Frames(data)
		data[frames[7]+20]++ // record 5: it follows the header, 3 records, the end, the next beginning and record 4
		require.NoError(t, os.WriteFile(journal, data, 0o600))
		if lost {
			require.NoError(t, os.Remove(filepath.Join(run, "meta")))
		}
		report, err := s.Repair(t.Context(), "run")
		require.NoError(t, err)
		require.EqualValues(t, 4, report.Kept)
	}
}

// Records appended after a repair are not mistaken for the lost ones, whether or not the number of
// generations is known.
func TestRecordsAfterARepairAreNotMistakenForLostOnes(t *testing.T) {
	for name, lost := range map[string]bool{"with its meta file": false, "without it": true} {
		t.Run(name, func(t *testing.T) {
			r, s, damage := damagedLate(t, lost)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			watched := make(chan []record.Record, 100)
			go func() {
				defer close(watched)
				for event := range s.Watch(ctx, snapshot.WatchOptions{Records: true}) {
					watched <- event.Records
				}
			}()
			require.Empty(t, <-watched)
			var last error
			var got []string
			for rec, err := range keepingPolled(t, r.dir).Follow(t.Context(), "run", snapshot.Cursor{}) {
				if last = err; err != nil {
					break
				}
				if got = append(got, describedRecord(&rec)); rec.Seq == 9 {
					damage()
					r.extend(t, s, "new", 3, snapshot.StatusPaused) // records 5 to 7
					r.extend(t, s, "new", 3, snapshot.StatusPaused)
				}
			}
			require.ErrorIs(t, last, snapshot.ErrReset)
			require.Len(t, got, 9)

			run, records := currentState(t, r.dir)
			require.Len(t, records, 10)
			require.Greater(t, run.Generation, uint64(3))
			for seq := uint64(5); seq <= 9; seq++ { // cursors of readers that have read the lost records
				c := snapshot.Cursor{Generation: (seq + 2) / 3, Seq: seq}
				for _, err := range s.Follow(t.Context(), "run", c) {
					require.ErrorIs(t, err, snapshot.ErrReset)
				}
			}
			var news []record.Record
			for len(news) < 6 {
				news = append(news, <-watched...)
			}
			require.EqualValues(t, 5, news[0].Seq)
			for _, rec := range news {
				require.Equal(t, "new", rec.Message())
			}
			cancel()
			for range watched { // until Watch has ended
			}
		})
	}
}

func keepingPolled(t *testing.T, dir string) *filestore.Store {
	t.Helper()
	return newFileStore(t, dir, filestore.WithPolling(time.Millisecond))
}
