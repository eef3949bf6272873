package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// runIDs returns the IDs of all runs, with their creation times relative to begin.
func runIDs(t *testing.T, store snapshot.Store, begin time.Time) map[string]time.Duration {
	page, err := store.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	ids := make(map[string]time.Duration)
	for _, i := range page.Runs {
		ids[i.RunID] = i.Created.Sub(begin)
	}
	return ids
}

func TestSchedulesStartRunsAtTheirInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now() // midnight UTC 2000-01-01, a Saturday
		store := memstore.New()
		var made atomic.Int32
		for range 2 { // two processes with the same schedules
			r := newRunner(t, store, runner.Options{SweepEvery: time.Hour})
			program := runner.Register(r, agent("echo", func(context.Context, word) (string, error) {
				made.Add(1)
				return "", nil
			}))
			for _, s := range []runner.Schedule{
				{Name: "once", At: begin.Add(90 * time.Minute)},
				{Name: "past", At: begin.Add(-time.Hour)},
				{Name: "hourly", Every: time.Hour, From: begin.Add(10 * time.Hour)},
				{Name: "cron", Cron: "30 9 * * MON-FRI", Location: time.FixedZone("", 3600)},
			} {
				require.NoError(t, program.Schedule(word{"x"}, s))
			}
			stop := serve(t, r)
			t.Cleanup(func() { assert.NoError(t, stop()) })
		}
		sleep(12*time.Hour + 30*time.Minute)
		assert.Equal(t, map[string]time.Duration{
			"once-20000101T013000Z":   90 * time.Minute,
			"hourly-20000101T100000Z": 10 * time.Hour,
			"hourly-20000101T110000Z": 11 * time.Hour,
			"hourly-20000101T120000Z": 12 * time.Hour,
		}, runIDs(t, store, begin))
		sleep(60 * time.Hour)
		ids := runIDs(t, store, begin)
		assert.Equal(t, 56*time.Hour+30*time.Minute, ids["cron-20000103T083000Z"])
		assert.Len(t, ids, 1+1+63)
		assert.EqualValues(t, len(ids), made.Load())
		for id := range ids {
			info, err := store.Info(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status, id)
		}
	})
}

func TestMissedInstantIsCaughtUpWithinItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		store := memstore.New()
		sleep(10*time.Hour + 20*time.Minute) // no runner serves
		for range 2 {
			r := newRunner(t, store, runner.Options{})
			program := runner.Register(r, echo)
			require.NoError(t, program.Schedule(word{"x"}, runner.Schedule{Name: "missed", Every: time.Hour}))
			require.NoError(t, program.Schedule(word{"x"}, runner.Schedule{Name: "caught", Every: time.Hour, CatchUp: 90 * time.Minute}))
			stop := serve(t, r)
			sleep(time.Minute)
			require.NoError(t, stop())
		}
		ids := runIDs(t, store, begin)
		assert.Contains(t, ids, "caught-20000101T090000Z")
		assert.Contains(t, ids, "caught-20000101T100000Z")
		assert.Len(t, ids, 2)
	})
}

func TestSummerTimeStartsNoInstantTwice(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones on this system")
	}
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{SweepEvery: 1000 * time.Hour, Retention: runner.Retention{Every: 1000 * time.Hour}})
		program := runner.Register(r, echo)
		require.NoError(t, program.Schedule(word{"x"}, runner.Schedule{Name: "noon", Cron: "0 12 * * *", Location: berlin}))
		defer serve(t, r)()
		sleep(366*24*time.Hour - time.Minute) // 2000 has 366 days
		synctest.Wait()
		ids := runIDs(t, store, time.Time{})
		assert.Len(t, ids, 366)
		assert.Contains(t, ids, "noon-20000325T110000Z")
		assert.Contains(t, ids, "noon-20000326T100000Z")
		assert.Contains(t, ids, "noon-20001028T100000Z")
		assert.Contains(t, ids, "noon-20001029T110000Z")
	})
}

// fullStore is a store that cannot store new runs at first.
type fullStore struct {
	*memstore.Store
	until time.Time
}

func (s *fullStore) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	if time.Now().Before(s.until) {
		return snapshot.Info{}, fmt.Errorf("%w: the disk is full", snapshot.ErrUnavailable)
	}
	return s.Store.Create(ctx, run)
}

func TestInstantIsNotLostWhileTheStoreIsAway(t *testing.T) {
	for _, c := range []struct {
		away, catchUp time.Duration
		want          int
	}{{30 * time.Second, 0, 2}, {10 * time.Minute, 0, 1}, {10 * time.Minute, time.Hour, 2}} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			store := &fullStore{memstore.New(), begin.Add(time.Hour + c.away)}
			var seen events
			r := newRunner(t, store, runner.Options{Observe: seen.observe})
			program := runner.Register(r, echo)
			sleep(time.Minute)
			require.NoError(t, program.Schedule(word{"x"}, runner.Schedule{Name: "s", Every: time.Hour, From: begin.Add(time.Hour), CatchUp: c.catchUp}))
			defer serve(t, r)()
			sleep(2 * time.Hour)
			assert.Len(t, runIDs(t, store, begin), c.want)
			require.NotEmpty(t, seen.of(runner.NoticeTrouble))
			require.ErrorIs(t, seen.of(runner.NoticeTrouble)[0].Err, snapshot.ErrUnavailable)
			assert.Equal(t, "s-20000101T010000Z", seen.of(runner.NoticeTrouble)[0].RunID)
		})
	}
}

func TestSingleRunWhoseTimeHasPassedIsReportedUnlessItExists(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, begin := memstore.New(), time.Now()
		serveOnce := func(after time.Duration, s runner.Schedule) []runner.Notice {
			var seen events
			r := newRunner(t, store, runner.Options{Observe: seen.observe})
			runner.Register(r, echo)
			require.NoError(t, r.Schedule("echo", word{"x"}, s))
			stop := serve(t, r)
			sleep(after)
			require.NoError(t, stop())
			return seen.of(runner.NoticeTrouble)
		}
		troubles := serveOnce(time.Second, runner.Schedule{Name: "past", At: begin.Add(-10 * time.Second)})
		require.Len(t, troubles, 1)
		assert.Equal(t, "past-19991231T235950Z", troubles[0].RunID)
		assert.ErrorContains(t, troubles[0].Err, `schedule "past": the time, 1999-12-31T23:59:50Z, has passed, and there is no run for it`)
		soon := runner.Schedule{Name: "soon", At: begin.Add(time.Minute)}
		assert.Empty(t, serveOnce(time.Hour, soon))
		assert.Empty(t, serveOnce(time.Hour, soon), "the run exists")
		assert.Empty(t, serveOnce(time.Second, runner.Schedule{Name: "past", At: begin.Add(-10 * time.Second), CatchUp: 3 * time.Hour}))
		assert.Len(t, runIDs(t, store, begin), 2)
	})
}

func TestBadSchedulesAreRefused(t *testing.T) {
	r := newRunner(t, memstore.New(), runner.Options{})
	runner.Register(r, echo)
	day := 24 * time.Hour
	for want, s := range map[string]runner.Schedule{
		"Name is empty":        {Every: day},
		"exactly one":          {Name: "a"},
		"exactly one of":       {Name: "a", Every: day, Cron: "@daily"},
		"a second or more":     {Name: "a", Every: time.Millisecond},
		"CatchUp":              {Name: "a", Every: day, CatchUp: -1},
		"Options.At":           {Name: "a", Every: day, Options: runner.StartOptions{At: time.Now()}},
		`Cron is "61 * * * *"`: {Name: "a", Cron: "61 * * * *"},
		`Cron is "0 0 30 2 *", which matches no date`: {Name: "a", Cron: "0 0 30 2 *"},
		`Cron is "often"`:            {Name: "a", Cron: "often"},
		`Cron is "0 0 0 1 1 * 2030"`: {Name: "a", Cron: "0 0 0 1 1 * 2030"},
		"not allowed":                {Name: "a b", Every: day},
	} {
		assert.ErrorContains(t, r.Schedule("echo", word{"x"}, s), want)
	}
	require.NoError(t, r.Schedule("echo", word{"x"}, runner.Schedule{Name: "a", Cron: "@daily"}))
	assert.ErrorContains(t, r.Schedule("echo", word{"x"}, runner.Schedule{Name: "a", Every: day}), "schedule \"a\" already exists")
	assert.ErrorIs(t, r.Schedule("echo", 5, runner.Schedule{Name: "b", Every: day}), runner.ErrInput)
	assert.ErrorIs(t, r.Schedule("other", 5, runner.Schedule{Name: "b", Every: day}), runner.ErrNotRegistered)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Serve(ctx))
	assert.ErrorContains(t, r.Schedule("echo", word{"x"}, runner.Schedule{Name: "c", Every: day}), "is already serving")
}

// retained starts the runs r0 to r5, an hour apart, and returns the runs that are left after a day.
// The run r1 is pinned, and r5 has not begun.
func retained(t *testing.T, p runner.Retention) (left []string, store snapshot.Store) {
	store = memstore.New()
	p.Every = time.Hour
	r := newRunner(t, store, runner.Options{Retention: p, SweepEvery: time.Hour})
	program := runner.Register(r, echo)
	defer serve(t, r)()
	for i := range 6 {
		o := runner.StartOptions{Pinned: i == 1}
		if i == 5 {
			o.At = time.Now().Add(1000 * time.Hour)
		}
		_, err := program.Start(t.Context(), fmt.Sprint("r", i), word{"x"}, o)
		require.NoError(t, err)
		sleep(time.Hour)
	}
	sleep(18*time.Hour + 30*time.Minute)
	for i := range 6 {
		if _, err := store.Info(t.Context(), fmt.Sprint("r", i)); err == nil {
			left = append(left, fmt.Sprint("r", i))
		}
	}
	return left, store
}

func TestRetentionRemovesEndedRuns(t *testing.T) {
	for name, c := range map[string]struct {
		retention runner.Retention
		want      []string
	}{
		"none":   {runner.Retention{}, []string{"r0", "r1", "r2", "r3", "r4", "r5"}},
		"age":    {runner.Retention{Age: 22*time.Hour - time.Minute}, []string{"r1", "r3", "r4", "r5"}},
		"number": {runner.Retention{Runs: 2}, []string{"r1", "r3", "r4", "r5"}},
		"size":   {runner.Retention{Bytes: 1}, []string{"r1", "r5"}},
		"enough": {runner.Retention{Bytes: 1 << 20, Runs: 4, Age: 100 * time.Hour}, []string{"r0", "r1", "r2", "r3", "r4", "r5"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				left, _ := retained(t, c.retention)
				assert.Equal(t, c.want, left)
			})
		})
	}
	_, err := runner.New(memstore.New(), runner.Options{Retention: runner.Retention{Age: -1}})
	assert.ErrorContains(t, err, "Age")
}

func TestRunThatExpiresIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		program := runner.Register(r, echo)
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		_, err = r.Store().Update(t.Context(), "a", func(i *snapshot.Info) error { i.Expires = time.Now().Add(time.Hour); return nil })
		require.NoError(t, err)
		sleep(59 * time.Minute)
		_, err = r.Info(t.Context(), "a")
		require.NoError(t, err)
		sleep(15 * time.Minute)
		_, err = r.Info(t.Context(), "a")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
	})
}

func TestRetentionKeepsWhatIsPinnedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{Retention: runner.Retention{Age: time.Hour, Every: time.Hour}})
		program := runner.Register(r, echo)
		defer serve(t, r)()
		for id, pinned := range map[string]bool{"kept": false, "removed": true} {
			_, err := program.Start(t.Context(), id, word{"x"}, runner.StartOptions{Pinned: pinned})
			require.NoError(t, err)
			_, err = r.Wait(t.Context(), id)
			require.NoError(t, err)
		}
		require.NoError(t, r.Pin(t.Context(), "kept", true))
		require.NoError(t, r.Pin(t.Context(), "removed", false))
		require.ErrorIs(t, r.Pin(t.Context(), "other", true), snapshot.ErrNotFound)
		sleep(4 * time.Hour)
		_, err := r.Info(t.Context(), "kept")
		require.NoError(t, err)
		_, err = r.Info(t.Context(), "removed")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
	})
}

func TestArchivedRunIsWrittenBeforeItIsRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "archive")
	synctest.Test(t, func(t *testing.T) {
		left, _ := retained(t, runner.Retention{Runs: 1, Archive: runner.ArchiveTo(dir)})
		assert.Equal(t, []string{"r1", "r4", "r5"}, left)
	})
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 3)
	data, err := os.ReadFile(filepath.Join(dir, "r0.reprise"))
	require.NoError(t, err)
	archived, err := snapshot.Decode(data)
	require.NoError(t, err)
	assert.Equal(t, "r0", archived.RunID)
	assert.Equal(t, snapshot.StatusCompleted, archived.Status)

	synctest.Test(t, func(t *testing.T) { // a run that cannot be archived is kept
		left, _ := retained(t, runner.Retention{Runs: 1, Archive: func(context.Context, *snapshot.Run) error {
			return errors.New("the archive is full")
		}})
		assert.Len(t, left, 6)
	})
}

// A run may have changed since retention listed it.
func TestRunThatChangesWhileItIsArchivedIsNotRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var r *runner.Runner
		var program *runner.Program[word, string]
		var archived atomic.Int32
		r = newRunner(t, store, runner.Options{SweepEvery: time.Hour, Retention: runner.Retention{
			Runs: 1, Every: 1000 * time.Hour, Archive: func(ctx context.Context, run *snapshot.Run) error {
				archived.Add(1)
				switch run.RunID {
				case "pinned":
					return r.Pin(ctx, run.RunID, true)
				case "replaced":
					if err := store.Delete(ctx, run.RunID); err != nil {
						return err
					}
					_, err := program.Start(ctx, run.RunID, word{"new"}, runner.StartOptions{At: time.Now().Add(time.Hour)})
					return err
				}
				return nil
			},
		}})
		program = runner.Register(r, echo)
		defer serve(t, r)()
		for _, id := range []string{"pinned", "replaced", "removed", "kept"} {
			_, err := program.Start(t.Context(), id, word{"old"}, runner.StartOptions{})
			require.NoError(t, err)
			sleep(time.Second)
		}
		sleep(2 * time.Minute)
		require.EqualValues(t, 3, archived.Load())
		for id, want := range map[string]snapshot.Status{"pinned": snapshot.StatusCompleted, "replaced": snapshot.StatusQueued, "kept": snapshot.StatusCompleted} {
			info, err := r.Info(t.Context(), id)
			require.NoError(t, err, id)
			assert.Equal(t, want, info.Status, id)
		}
		_, err := r.Info(t.Context(), "removed")
		require.ErrorIs(t, err, snapshot.ErrNotFound)
	})
}
