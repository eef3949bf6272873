package filestore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// mostSteps is roughly the number of steps in which Follow reads everything that exists.
const mostSteps = 15

// currentState returns the current info and records of a run.
func currentState(t *testing.T, dir string) (info snapshot.Info, records []string) {
	t.Helper()
	run, err := notCompacting(t, dir).Load(t.Context(), "run")
	require.NoError(t, err)
	for rec, err := range run.Records() {
		require.NoError(t, err)
		records = append(records, describedRecord(&rec))
	}
	return run.Info, records
}

// Whatever happens to a run while it is followed, Follow yields each of its records once, and no
// record of another run.
func TestFollowYieldsTheRecordsOfOneRun(t *testing.T) {
	everyInstant(t, mostSteps, func(t *testing.T, s *filestore.Store, r *changingRun, d *instantDisk) {
		_, old := currentState(t, r.dir)
		var last []string
		change := d.do
		d.do = func() {
			change()
			_, last = currentState(t, r.dir)
		}
		got := []string{}
		for rec, err := range s.Follow(t.Context(), "run", snapshot.Cursor{}) {
			if err != nil && strings.Contains(t.Name(), "replaced") && (errors.Is(err, snapshot.ErrNotFound) || errors.Is(err, snapshot.ErrReset)) {
				require.Equal(t, old[:min(len(got), len(old))], got, "step %d", d.at)
				return
			}
			require.NoError(t, err, "step %d: after %v", d.at, got)
			if got = append(got, describedRecord(&rec)); slices.Equal(got, last) {
				return
			}
			if !isPrefix(got, old) && !isPrefix(got, last) {
				require.Failf(t, "a mixture", "step %d: got\n%v\nof\n%v\nor\n%v", d.at, got, old, last)
			}
		}
	})
}

func isPrefix(got, of []string) bool { return len(got) <= len(of) && slices.Equal(got, of[:len(got)]) }

// A seenRun holds what a watcher has seen of one run.
type seenRun struct {
	info    snapshot.Info
	skipped uint64 // number of records that existed at the first event
	records []string
	deleted bool
}

// watchUntil watches until isEnd returns true for one of the runs.
func watchUntil(ctx context.Context, s *filestore.Store, runID string, isEnd func(*seenRun) bool) ([]*seenRun, error) {
	var runs []*seenRun
	for event, err := range s.Watch(ctx, snapshot.WatchOptions{RunID: runID, Records: true}) {
		if err != nil {
			return runs, err
		}
		i := slices.IndexFunc(runs, func(r *seenRun) bool { return r.info.Created.Equal(event.Info.Created) })
		if i < 0 {
			runs = append(runs, &seenRun{skipped: event.Info.LastSeq - uint64(len(event.Records)), records: []string{}})
			i = len(runs) - 1
		}
		r := runs[i]
		r.info, r.deleted = event.Info, event.Deleted
		for _, rec := range event.Records {
			if n := r.skipped + uint64(len(r.records)) + 1; rec.Seq != n {
				return runs, fmt.Errorf("got record %d, want %d", rec.Seq, n)
			}
			r.records = append(r.records, describedRecord(&rec))
		}
		if isEnd(r) {
			return runs, nil
		}
	}
	return runs, nil
}

// Whatever happens to a run while it is watched, the last event shows its final
// state, and each record comes once, with its own run.
func TestWatchShowsEachRunWithItsOwnRecordsWhateverHappens(t *testing.T) {
	for _, runID := range []string{"run", ""} {
		t.Run("of "+runID, func(t *testing.T) {
			everyInstant(t, mostSteps, func(t *testing.T, s *filestore.Store, r *changingRun, d *instantDisk) {
				states := make(map[int64][]string) // the records, by the run's creation time
				var last snapshot.Info
				r.reached = func() {
					info, records := currentState(t, r.dir)
					states[info.Created.UnixNano()], last = records, info
				}
				r.reached()
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				changed := false
				change := d.do
				d.do = func() {
					change()
					changed = true
				}
				runs, err := watchUntil(ctx, s, runID, func(r *seenRun) bool {
					return changed && r.info.Created.Equal(last.Created) && r.info.Status == last.Status && r.info.Open == last.Open &&
						r.info.Generation == last.Generation && r.skipped+uint64(len(r.records)) == last.LastSeq
				})
				for _, run := range runs {
					records := states[run.info.Created.UnixNano()]
					first := min(int(run.skipped), len(records))
					require.Equal(t, records[first:min(first+len(run.records), len(records))], run.records, "step %d: skipped %d of %v", d.at, run.skipped, records)
				}
				require.NoError(t, err, "step %d: saw %+v, want %+v", d.at, runs, last)
			})
		})
	}
}
