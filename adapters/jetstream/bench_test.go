package jetstream_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/snapshot/storetest"
	"github.com/reprise-go/reprise/state"
)

// The benchmark's server runs in the benchmark's own process and shares its cores.
func BenchmarkSyncedRecord(b *testing.B) {
	for name, o := range map[string][]jstest.Option{"sync=default": nil, "sync=always": {jstest.WithSyncAlways()}} {
		for _, parallel := range []int{1, 16} {
			b.Run(fmt.Sprintf("%s/of-one-run/parallel=%d", name, parallel), func(b *testing.B) { benchmarkOneRun(b, o, parallel) })
		}
		b.Run(name+"/of-16-runs", func(b *testing.B) { benchmarkRuns(b, o, 16) })
	}
}

func benchStore(b *testing.B, o []jstest.Option) *jetstream.Store {
	b.Helper()
	s, err := jetstream.Open(b.Context(), jstest.Start(b, o...).Connect(), jetstream.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, s.Close()) })
	return s
}

// each calls do with every number below n, using the given number of goroutines. A goroutine stops
// at its first error, which makes the benchmark fail.
func each(b *testing.B, n, parallel int, do func(i int) error) {
	b.Helper()
	var begun atomic.Int64
	var wait sync.WaitGroup
	for range parallel {
		wait.Go(func() {
			for i := begun.Add(1) - 1; i < int64(n); i = begun.Add(1) - 1 {
				if err := do(int(i)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
}

func benchmarkOneRun(b *testing.B, o []jstest.Option, parallel int) {
	j, err := benchStore(b, o).Open(b.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(b, err)
	var mu sync.Mutex
	var last uint64
	b.ResetTimer()
	each(b, b.N, parallel, func(int) error {
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
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	require.NoError(b, j.Close(b.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}

func benchmarkRuns(b *testing.B, o []jstest.Option, runs int) {
	s := benchStore(b, o)
	var journals []snapshot.Journal
	for n := range runs {
		j, err := s.Open(b.Context(), fmt.Sprint("run-", n), snapshot.OpenOptions{Create: true})
		require.NoError(b, err)
		journals = append(journals, j)
	}
	b.ResetTimer()
	var wait sync.WaitGroup
	for _, j := range journals {
		wait.Go(func() {
			for seq := uint64(1); seq <= uint64(b.N/runs)+1; seq++ {
				err := j.Append(storetest.Records(seq, 1)...)
				if err == nil {
					err = j.Sync(b.Context(), seq)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}

// BenchmarkTrivialRun starts runs and waits for them to end. The worker is in this process.
func BenchmarkTrivialRun(b *testing.B) {
	for name, o := range map[string][]jstest.Option{"sync=default": nil, "sync=always": {jstest.WithSyncAlways()}} {
		b.Run(name, func(b *testing.B) {
			s := benchStore(b, o)
			q, err := jetstream.OpenQueue(b.Context(), s)
			require.NoError(b, err)
			var ended atomic.Int64
			done := make(chan struct{})
			r, err := runner.New(s, runner.Options{Queue: q, Observe: func(e runner.Notice) {
				if e.Type == runner.NoticeClosed && ended.Add(1) == int64(b.N) {
					close(done)
				}
			}})
			require.NoError(b, err)
			p := runner.Register(r, decorators.Agent("trivial", "", func(context.Context, word) (string, error) { return "", nil }))
			ctx, cancel := context.WithCancel(b.Context())
			served := make(chan error, 1)
			go func() { served <- r.Serve(ctx) }()
			b.ResetTimer()
			each(b, b.N, 16, func(i int) error {
				_, err := p.Start(b.Context(), fmt.Sprint("r", i), word{}, runner.StartOptions{})
				return err
			})
			<-done
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
			cancel()
			require.NoError(b, <-served)
		})
	}
}

// BenchmarkList lists the newest 50 of many runs.
func BenchmarkList(b *testing.B) {
	const runs = 10_000
	s := benchStore(b, nil)
	each(b, runs, 16, func(i int) error {
		run, err := snapshot.NewRun(snapshot.Info{RunID: fmt.Sprint("r", i), Status: snapshot.StatusCompleted, Created: time.Now()}, nil)
		if err != nil {
			return err
		}
		_, err = s.Create(b.Context(), run)
		return err
	})
	b.Run("newest=50", func(b *testing.B) {
		for b.Loop() {
			page, err := s.List(b.Context(), snapshot.Filter{Limit: 50})
			require.NoError(b, err)
			require.Len(b, page.Runs, 50)
		}
	})
	b.Run("all=10000", func(b *testing.B) {
		for b.Loop() {
			page, err := s.List(b.Context(), snapshot.Filter{})
			require.NoError(b, err)
			require.Len(b, page.Runs, runs)
		}
	})
}

// BenchmarkSweep searches a store with many ended runs and 100 queued ones for runs to continue.
// REPRISE_ENDED is the number of ended runs.
func BenchmarkSweep(b *testing.B) {
	ended := 10_000
	if set := os.Getenv("REPRISE_ENDED"); set != "" {
		_, err := fmt.Sscan(set, &ended)
		require.NoError(b, err)
	}
	s := benchStore(b, nil)
	for _, n := range []int{0, ended} {
		each(b, n+100, 16, func(i int) error {
			run, err := snapshot.NewRun(snapshot.Info{RunID: fmt.Sprint("r", n, "-", i), Status: snapshot.StatusCompleted, Created: time.Now()}, nil)
			if err == nil {
				if run.Status = snapshot.StatusCompleted; n == 0 {
					run.Status = snapshot.StatusQueued
				}
				_, err = s.Create(b.Context(), run)
			}
			return err
		})
		b.Run(fmt.Sprintf("ended=%d", n), func(b *testing.B) {
			before := processorTime(b)
			for b.Loop() {
				page, err := s.List(b.Context(), sweeping())
				require.NoError(b, err)
				require.Len(b, page.Runs, 100)
			}
			b.ReportMetric(float64(processorTime(b)-before)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
		})
		b.Run(fmt.Sprintf("failed-of-%d", n), func(b *testing.B) {
			for b.Loop() {
				_, err := s.List(b.Context(), snapshot.Filter{Status: []snapshot.Status{snapshot.StatusFailed}, Limit: 50})
				require.NoError(b, err)
			}
		})
	}
}

// processorTime returns the CPU time that this process, including its server, has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// BenchmarkRetention removes ended runs, as many at a time as a runner does.
func BenchmarkRetention(b *testing.B) {
	s := benchStore(b, nil)
	each(b, b.N, 16, func(i int) error {
		j, err := s.Open(b.Context(), fmt.Sprint("r", i), snapshot.OpenOptions{Create: true})
		if err != nil {
			return err
		}
		return j.Close(b.Context(), snapshot.End{Status: snapshot.StatusCompleted})
	})
	b.ResetTimer()
	each(b, b.N, 16, func(i int) error {
		if _, err := s.Info(b.Context(), fmt.Sprint("r", i)); err != nil {
			return err
		}
		return s.Delete(b.Context(), fmt.Sprint("r", i))
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
}

// BenchmarkLoad loads a run of 10,000 records.
func BenchmarkLoad(b *testing.B) {
	s := benchStore(b, nil)
	j, err := s.Open(b.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(b, err)
	for seq := uint64(1); seq <= 10_000; seq++ {
		require.NoError(b, j.Append(storetest.Records(seq, 1)...))
		if seq%10 == 0 {
			require.NoError(b, j.Sync(b.Context(), seq))
		}
	}
	require.NoError(b, j.Close(b.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
	for b.Loop() {
		run, err := s.Load(b.Context(), "run")
		require.NoError(b, err)
		require.Equal(b, 10_000, run.Len())
	}
}

// BenchmarkTakeover kills a worker in the middle of a step. Another worker is already waiting for
// jobs, or is started after the kill. BenchmarkTakeover reports how long after the kill the other
// worker takes over the run, and by how much the longest of these times exceeds the lease. Use it
// with -benchtime=20x.
func BenchmarkTakeover(b *testing.B) {
	url := jstest.Start(b).URL()
	b.Run("worker=standing by", func(b *testing.B) { benchmarkTakeover(b, url, true) })
	b.Run("worker=started after", func(b *testing.B) { benchmarkTakeover(b, url, false) })
}

func benchmarkTakeover(b *testing.B, url string, standsBy bool) {
	var took []time.Duration
	for b.Loop() {
		s := newSite(b, url, jetstream.Options{Lease: lease})
		id := fmt.Sprint("run-", b.N, "-", time.Now().UnixNano())
		first := s.worker("hold after")
		s.start(id, 4)
		first.Await("holding")
		var second *process.Process
		if standsBy {
			second = s.worker("quiet")
		}
		first.Kill()
		killed := time.Now()
		if !standsBy {
			second = s.worker("quiet")
		}
		for e, err := range s.client.Store().Watch(b.Context(), snapshot.WatchOptions{RunID: id}) {
			require.NoError(b, err)
			if e.Info.Generation > 1 {
				break
			}
		}
		took = append(took, time.Since(killed))
		s.check(id, 4, 0)
		second.Stop()
	}
	slices.Sort(took)
	longest := took[len(took)-1]
	b.ReportMetric(took[0].Seconds()*1000, "ms-shortest")
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "ms-median")
	b.ReportMetric(longest.Seconds()*1000, "ms-longest")
	b.ReportMetric((longest-lease).Seconds()*1000, "ms-after-lease")
}

// BenchmarkWait reports how long it takes another process, which does not serve, to learn that a
// run has ended.
func BenchmarkWait(b *testing.B) {
	server := jstest.Start(b)
	open := func() *runner.Runner {
		s, err := jetstream.Open(b.Context(), server.Connect(), jetstream.Options{})
		require.NoError(b, err)
		b.Cleanup(func() { require.NoError(b, s.Close()) })
		q, err := jetstream.OpenQueue(b.Context(), s)
		require.NoError(b, err)
		r, err := runner.New(s, runner.Options{Queue: q})
		require.NoError(b, err)
		return r
	}
	returned := make(chan time.Time, 1)
	program := decorators.Agent("trivial", "", func(context.Context, word) (string, error) {
		<-time.After(100 * time.Millisecond) // long enough for the other process to be waiting
		returned <- time.Now()
		return "", nil
	})
	worker, client := open(), open()
	runner.Register(worker, program)
	p := runner.Register(client, program)
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error, 1)
	go func() { served <- worker.Serve(ctx) }()
	var longest time.Duration
	for b.Loop() {
		info, err := p.Start(b.Context(), "", word{}, runner.StartOptions{})
		require.NoError(b, err)
		_, err = client.Wait(b.Context(), info.RunID)
		require.NoError(b, err)
		longest = max(longest, time.Since(<-returned))
	}
	b.ReportMetric(longest.Seconds()*1000, "ms-longest")
	cancel()
	require.NoError(b, <-served)
}

// BenchmarkDurableCall makes calls whose outcomes are synced: in a run in a directory, and in a run
// on a server with sync_interval always.
func BenchmarkDurableCall(b *testing.B) {
	for _, parallel := range []int{1, 16} {
		b.Run(fmt.Sprintf("directory/parallel=%d", parallel), func(b *testing.B) {
			s, err := filestore.New(b.TempDir())
			require.NoError(b, err)
			benchmarkCalls(b, s, parallel)
		})
		b.Run(fmt.Sprintf("server/parallel=%d", parallel), func(b *testing.B) {
			benchmarkCalls(b, benchStore(b, []jstest.Option{jstest.WithSyncAlways()}), parallel)
		})
	}
}

func benchmarkCalls(b *testing.B, s snapshot.Store, parallel int) {
	st, err := state.Open(b.Context(), s, "run", state.WithSync(state.SyncOutcomes))
	require.NoError(b, err)
	ctx := st.Context(b.Context())
	tool := decorators.Tool("trivial", "", func(context.Context, word) (string, error) { return "", nil })
	b.ResetTimer()
	each(b, b.N, parallel, func(int) error {
		_, err := tool.Call(ctx, word{})
		return err
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	require.NoError(b, st.Close())
}
