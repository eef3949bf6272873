package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/postgres"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// BenchmarkDurable compares records that are appended and synced with plain inserts of the same
// size, for several numbers of concurrent writers.
func BenchmarkDurable(b *testing.B) {
	schema := newSchema(b)
	admin, err := pgx.Connect(b.Context(), serverURL(b))
	require.NoError(b, err)
	defer func() { _ = admin.Close(b.Context()) }()
	table := pgx.Identifier{schema, "bare"}.Sanitize()
	_, err = admin.Exec(b.Context(), `drop table if exists `+table+`; create table `+table+` (id bigint generated always as identity primary key, data bytea); grant insert on `+table+` to reprise_app`)
	require.NoError(b, err)
	s := open(b, postgres.Options{Schema: schema, Mute: true})
	data := make([]byte, 150)
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprintf("insert/parallel=%d", n), func(b *testing.B) {
			together(b, n, func(int) error {
				_, err := shared.pool.Exec(b.Context(), `insert into `+table+` (data) values ($1)`, data)
				return err
			})
		})
		b.Run(fmt.Sprintf("runs/parallel=%d", n), func(b *testing.B) {
			journals, last := make([]snapshot.Journal, n), make([]uint64, n)
			for i := range journals {
				journals[i], err = s.Open(b.Context(), fmt.Sprint("run-", i), snapshot.OpenOptions{Create: true})
				require.NoError(b, err)
				last[i] = journals[i].Restored().LastSeq
			}
			together(b, n, func(i int) error {
				last[i]++
				if err := journals[i].Append(storetest.Records(last[i], 1)...); err != nil {
					return err
				}
				return journals[i].Sync(b.Context(), last[i])
			})
			for _, j := range journals {
				require.NoError(b, j.Close(b.Context(), snapshot.End{Status: snapshot.StatusPaused}))
			}
		})
	}
	b.Run("calls of a run/parallel=16", func(b *testing.B) {
		j, err := s.Open(b.Context(), "calls", snapshot.OpenOptions{Create: true})
		require.NoError(b, err)
		var mu sync.Mutex
		last := j.Restored().LastSeq
		together(b, 16, func(int) error {
			mu.Lock()
			last++
			seq := last
			err := j.Append(storetest.Records(seq, 1)...)
			mu.Unlock()
			if err != nil {
				return err
			}
			return j.Sync(b.Context(), seq)
		})
		require.NoError(b, j.Close(b.Context(), snapshot.End{Status: snapshot.StatusPaused}))
	})
}

// together calls do b.N times in total, in n goroutines.
func together(b *testing.B, n int, do func(i int) error) {
	b.ResetTimer()
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() {
			for k := i; k < b.N; k += n {
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "/s")
	b.StopTimer()
}

// BenchmarkRuns starts runs that make one call, 64 at a time, and waits until all of them have
// ended.
func BenchmarkRuns(b *testing.B) {
	s := open(b, postgres.Options{Schema: newSchema(b)})
	var ended sync.WaitGroup
	r, err := runner.New(s, runner.Options{Queue: s.Queue(), Limit: 64, Observe: func(e runner.Notice) {
		if e.Type == runner.NoticeClosed {
			ended.Done()
		}
	}})
	require.NoError(b, err)
	runner.Register(r, decorators.Agent("bench", "", func(context.Context, struct{}) (string, error) { return "done", nil }))
	ctx, stop := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	ended.Add(b.N)
	together(b, 64, func(int) error {
		_, err := r.Start(b.Context(), "bench", "", struct{}{}, runner.StartOptions{})
		return err
	})
	b.StartTimer()
	ended.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "/s")
	b.StopTimer()
	stop()
	require.NoError(b, <-served)
}

// BenchmarkTakeover ends a worker as a kill would. Another worker is already waiting for jobs, or
// is started after that. BenchmarkTakeover reports the longest time from the kill until the other
// worker has the job, and by how much that time exceeds the lease. Use it with -benchtime=20x.
func BenchmarkTakeover(b *testing.B) {
	b.Run("worker=standing by", func(b *testing.B) { benchmarkTakeover(b, true) })
	b.Run("worker=started after", func(b *testing.B) { benchmarkTakeover(b, false) })
}

func benchmarkTakeover(b *testing.B, standsBy bool) {
	o := postgres.Options{Schema: newSchema(b), Lease: 2 * time.Second}
	programs := []runner.ProgramID{{Name: "echo", Version: "1"}}
	worker := func() *postgres.Store {
		s, err := postgres.Open(b.Context(), shared.pool, o)
		require.NoError(b, err)
		return s
	}
	var longest time.Duration
	for b.Loop() {
		killed := worker()
		_, err := killed.Queue().Add(b.Context(), runner.QueueEntry{RunID: "run", Program: programs[0]})
		require.NoError(b, err)
		_, err = killed.Queue().Take(b.Context(), programs, 1)
		require.NoError(b, err)
		var other *postgres.Store
		if standsBy {
			other = worker()
		}
		postgres.Crash(killed)
		at := time.Now()
		if !standsBy {
			other = worker()
		}
		taken, err := other.Queue().Take(b.Context(), programs, 1)
		require.NoError(b, err)
		longest = max(longest, time.Since(at))
		require.NoError(b, taken[0].Done(b.Context()))
		require.NoError(b, other.Close())
	}
	b.ReportMetric(longest.Seconds()*1000, "ms-longest")
	b.ReportMetric((longest-o.Lease).Seconds()*1000, "ms-after-lease")
}
