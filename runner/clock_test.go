package runner_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A serverQueue is the queue of a server whose clock is ahead of the worker's.
type serverQueue struct {
	runner.Queue
	ahead  time.Duration
	silent atomic.Bool
}

func newServerQueue(ahead time.Duration) *serverQueue {
	return &serverQueue{Queue: runner.NewHeapQueue(), ahead: ahead}
}

func (q *serverQueue) Now(context.Context) (time.Time, error) {
	if q.silent.Load() {
		return time.Time{}, errors.New("no route to host")
	}
	return time.Now().Add(q.ahead), nil
}

func (q *serverQueue) here(e runner.QueueEntry) runner.QueueEntry {
	e.Due = e.Due.Add(-q.ahead)
	return e
}

func (q *serverQueue) Add(ctx context.Context, e runner.QueueEntry) (bool, error) {
	return q.Queue.Add(ctx, q.here(e))
}

func (q *serverQueue) Take(ctx context.Context, programs []runner.ProgramID, n int) ([]runner.Lease, error) {
	leases, err := q.Queue.Take(ctx, programs, n)
	for i, l := range leases {
		leases[i] = serverLease{l, q.ahead}
	}
	return leases, err
}

type serverLease struct {
	runner.Lease
	ahead time.Duration
}

func (l serverLease) Park(ctx context.Context, due time.Time) error {
	return l.Lease.Park(ctx, due.Add(-l.ahead))
}

func TestScheduleFollowsTheClockOfTheQueue(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			store := memstore.New()
			r := newRunner(t, store, runner.Options{Queue: newServerQueue(ahead)})
			program := runner.Register(r, echo)
			begin := time.Now()
			server := begin.Add(ahead)
			require.NoError(t, program.Schedule(word{"x"}, runner.Schedule{Name: "every", Every: 6 * time.Hour, From: server.Add(3 * time.Hour)}))
			require.NoError(t, program.Schedule(word{"x"}, runner.Schedule{Name: "past", At: server.Add(-2 * time.Minute)}))
			require.NoError(t, program.Schedule(word{"x"}, runner.Schedule{Name: "caught", At: server.Add(-2 * time.Minute), CatchUp: time.Hour}))
			defer serve(t, r)()
			sleep(10 * time.Hour)
			got := runIDs(t, store, begin)
			first := "every-" + server.Add(3*time.Hour).Format("20060102T150405Z")
			second := "every-" + server.Add(9*time.Hour).Format("20060102T150405Z")
			assert.Equal(t, map[string]time.Duration{
				first: 3 * time.Hour, second: 9 * time.Hour,
				"caught-" + server.Add(-2*time.Minute).Format("20060102T150405Z"): 0,
			}, got, ahead)
			for id := range got {
				info, err := r.Info(t.Context(), id)
				require.NoError(t, err)
				assert.Equal(t, snapshot.StatusCompleted, info.Status, id)
				assert.WithinDuration(t, info.Created, info.Updated, time.Second, "the run does not wait for the clock of this process")
			}
		})
	}
}

// A sleep must not become longer by the difference between the clocks of the server
// and the worker, and its run must not be opened repeatedly before the sleep is over.
func TestSleepIsAsLongWhateverTheClockOfTheQueue(t *testing.T) {
	for _, ahead := range []time.Duration{0, time.Hour, -time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRunner(t, memstore.New(), runner.Options{Queue: newServerQueue(ahead), SweepEvery: time.Hour})
			program := runner.Register(r, agent("nap", func(ctx context.Context, _ word) (string, error) {
				return "", core.Sleep(ctx, 10*time.Minute)
			}))
			defer serve(t, r)()
			began := time.Now()
			_, err := program.Start(t.Context(), "r", word{}, runner.StartOptions{})
			require.NoError(t, err)
			_, err = r.Wait(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, 10*time.Minute, time.Since(began), ahead)
			assert.EqualValues(t, 2, r.Stats().Opened, ahead)
		})
	}
}

// dueStore is a store that lists only the runs that are due, as a store with an index by time does.
type dueStore struct{ *memstore.Store }

func (s dueStore) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	page, err := s.Store.List(ctx, f)
	page.Runs = slices.DeleteFunc(page.Runs, func(info snapshot.Info) bool { return !f.DueBy.IsZero() && info.Due.After(f.DueBy) })
	return page, err
}

// If a run is due according to the server's clock, and the queue has lost it, a worker must find it
// even if the worker's clock is behind.
func TestSweepFindsWhatIsDueByTheClockOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := dueStore{memstore.New()}
		input, err := record.Encode(word{"x"})
		require.NoError(t, err)
		begin := time.Now()
		run, err := snapshot.NewRun(snapshot.Info{RunID: "r", Status: snapshot.StatusQueued, Program: echo.Name(), Version: "1", Created: begin, Due: begin.Add(30 * time.Minute)},
			func(yield func(record.Record, error) bool) {
				yield(record.Record{RunID: "r", Seq: 1, Time: begin, Name: echo.Name(), Kind: record.KindRun, Status: record.StatusRecorded, Detail: &record.Detail{Input: input}}, nil)
			})
		require.NoError(t, err)
		_, err = store.Create(t.Context(), run)
		require.NoError(t, err)

		r := newRunner(t, store, runner.Options{Queue: newServerQueue(time.Hour), SweepEvery: time.Minute})
		runner.Register(r, echo)
		defer serve(t, r)()
		_, err = r.Wait(t.Context(), "r")
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(begin), time.Minute)
	})
}

func TestScheduleWaitsForTheClockOfTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var seen events
		queue := newServerQueue(0)
		queue.silent.Store(true)
		r := newRunner(t, store, runner.Options{Queue: queue, Observe: seen.observe})
		begin := time.Now()
		require.NoError(t, runner.Register(r, echo).Schedule(word{"x"}, runner.Schedule{Name: "s", At: begin.Add(time.Minute), CatchUp: time.Hour}))
		defer serve(t, r)()
		sleep(10 * time.Minute)
		assert.Empty(t, runIDs(t, store, begin))
		require.NotEmpty(t, seen.of(runner.NoticeTrouble))
		require.EqualError(t, seen.of(runner.NoticeTrouble)[0].Err, `runner: schedule "s": read the clock of the queue: no route to host`)
		queue.silent.Store(false)
		sleep(time.Minute)
		assert.Len(t, runIDs(t, store, begin), 1)
	})
}

// countedQueue is a shared queue from which other processes take runs.
type countedQueue struct {
	otherQueue
	asked       atomic.Int32
	due, parked atomic.Int32
	broken      atomic.Bool
}

func (q *countedQueue) Waiting(_ context.Context, programs []runner.ProgramID) (due, parked int, err error) {
	q.asked.Add(1)
	if q.broken.Load() || len(programs) != 1 || programs[0].Name != "echo" {
		return 0, 0, errors.New("no route to host")
	}
	return int(q.due.Load()), int(q.parked.Load()), nil
}

func TestStatsCountASharedQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var queue countedQueue
		var seen events
		r := newRunner(t, memstore.New(), runner.Options{Queue: &queue, Observe: seen.observe})
		runner.Register(r, echo)
		queue.due.Store(70)
		queue.parked.Store(3)
		assert.Zero(t, r.Stats().Queued, "the runner does not serve yet")
		defer serve(t, r)()
		synctest.Wait()
		assert.Equal(t, []int{70, 3}, []int{r.Stats().Queued, r.Stats().Parked})
		queue.due.Store(0)
		sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int{0, 3}, []int{r.Stats().Queued, r.Stats().Parked})
		assert.EqualValues(t, 2, queue.asked.Load())
		assert.Empty(t, seen.of(runner.NoticeTrouble))

		queue.broken.Store(true)
		sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, []int{0, 3}, []int{r.Stats().Queued, r.Stats().Parked}, "the last count")
		require.Len(t, seen.of(runner.NoticeTrouble), 1)
		assert.EqualError(t, seen.of(runner.NoticeTrouble)[0].Err, "runner: count the queue: no route to host")
	})
}
