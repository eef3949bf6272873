package runner_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

func TestSleepingRunIsParkedAndTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var entered atomic.Int32
		nap := agent("nap", func(ctx context.Context, in word) (string, error) {
			entered.Add(1)
			if err := core.Sleep(ctx, 30*time.Second); err != nil { // short, so the run stays open
				return "", err
			}
			return in.Text, core.Sleep(ctx, 24*time.Hour)
		})
		r := newRunner(t, store, runner.Options{Limit: 1})
		program := runner.Register(r, nap)
		stop := serve(t, r)
		began := time.Now()
		for i := range 3 {
			_, err := program.Start(t.Context(), fmt.Sprint("r", i), word{"x"}, runner.StartOptions{})
			require.NoError(t, err)
		}
		sleep(2 * time.Minute)
		assert.Equal(t, 3, r.Stats().Parked)
		assert.Zero(t, r.Stats().Open)
		info, err := r.Info(t.Context(), "r0")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusPaused, info.Status)
		require.NoError(t, stop())

		sleep(time.Hour) // the service is down
		r = newRunner(t, store, runner.Options{Limit: 1})
		runner.Register(r, nap)
		defer serve(t, r)()
		synctest.Wait()
		assert.Equal(t, 3, r.Stats().Parked)
		for i := range 3 {
			info, err := r.Wait(t.Context(), fmt.Sprint("r", i))
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status)
			assert.Equal(t, time.Duration(i+1)*30*time.Second+24*time.Hour, time.Since(began))
		}
		assert.EqualValues(t, 6, entered.Load())
	})
}

// A run that is parked could not be ended by the time limit of its agent.
func TestASleepInsideATimeLimitDoesNotParkTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		limited := agent("limited", func(ctx context.Context, in word) (string, error) {
			if err := core.Sleep(ctx, 30*time.Minute); err != nil {
				return "", err
			}
			return in.Text, takes(ctx, 40*time.Minute)
		}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1, RetryTimeout: time.Hour}))
		r := newRunner(t, store, runner.Options{})
		program := runner.Register(r, limited)
		defer serve(t, r)()
		began := time.Now()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		sleep(10 * time.Minute)
		info, err := store.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusRunning, info.Status)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(began))
		_, err = program.Result(t.Context(), "a")
		require.ErrorIs(t, err, core.ErrRetryTimeout)
	})
}

func TestRunWithALongBackoffIsParkedAndTakesNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var attempts atomic.Int32
		call := decorators.Tool("call", "", func(ctx context.Context, in word) (string, error) {
			if attempts.Add(1); core.ScopeOf(ctx).Attempt() < 2 {
				return "", core.Retryable(errors.New("busy"))
			}
			return in.Text, nil
		}, actors.WithRetry(core.RetryConfig{
			InitialDelay: 30 * time.Second, Multiplier: 4 * 60, MaxDelay: 2 * time.Hour, Jitter: core.NoJitter, // 30 s, then 2 h
		}))
		register := func(r *runner.Runner) *runner.Program[word, string] {
			return runner.Register(r, agent("late", call.Call))
		}
		r := newRunner(t, store, runner.Options{Limit: 1})
		program := register(r)
		stop := serve(t, r)
		began := time.Now()
		for i := range 2 {
			_, err := program.Start(t.Context(), fmt.Sprint("r", i), word{"x"}, runner.StartOptions{})
			require.NoError(t, err)
		}
		sleep(30*time.Second + time.Millisecond)
		assert.Equal(t, 1, r.Stats().Parked, "the first run is parked, and the second has its slot")
		sleep(time.Minute)
		assert.Equal(t, 2, r.Stats().Parked)
		assert.Zero(t, r.Stats().Open)
		require.NoError(t, stop())

		sleep(time.Hour) // the service is down
		r = newRunner(t, store, runner.Options{Limit: 1})
		register(r)
		defer serve(t, r)()
		for i := range 2 {
			info, err := r.Wait(t.Context(), fmt.Sprint("r", i))
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status)
			assert.Equal(t, time.Duration(i+1)*30*time.Second+2*time.Hour, time.Since(began))
		}
		assert.EqualValues(t, 6, attempts.Load())
	})
}

func TestQuestionWithADefaultContinuesByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		program := runner.Register(r, agent("ask", func(ctx context.Context, _ word) (string, error) {
			return core.Await(ctx, "who?", core.AwaitDefault(time.Hour, "nobody"))
		}))
		defer serve(t, r)()
		began := time.Now()
		for _, id := range []string{"silent", "answered"} {
			_, err := program.Start(t.Context(), id, word{}, runner.StartOptions{})
			require.NoError(t, err)
		}
		synctest.Wait()
		require.NoError(t, r.Answer(t.Context(), "answered", "ask?1", "", "Ada"))
		_, err := r.Wait(t.Context(), "answered")
		require.NoError(t, err)
		assert.Zero(t, time.Since(began))
		out, err := program.Result(t.Context(), "answered")
		require.NoError(t, err)
		assert.Equal(t, "Ada", out)
		_, err = r.Wait(t.Context(), "silent")
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(began))
		out, err = program.Result(t.Context(), "silent")
		require.NoError(t, err)
		assert.Equal(t, "nobody", out)
	})
}

// manyRuns is a store that lists a very large number of queued runs without keeping them in memory:
// each run is created when it is read.
type manyRuns struct {
	*memstore.Store
	n     int
	due   func(i int) time.Time
	input *snapshot.Run // input of each run
	mu    sync.Mutex
	made  map[string]bool
}

func (m *manyRuns) info(i int) snapshot.Info {
	return snapshot.Info{
		RunID: fmt.Sprintf("run-%016d", i), Status: snapshot.StatusQueued, Program: "wake", Version: "1", Due: m.due(i),
		Created: time.Unix(1, 0), Updated: time.Unix(1, 0),
	}
}

func (m *manyRuns) List(_ context.Context, f snapshot.Filter) (page snapshot.Page, err error) {
	if !slices.Contains(f.Status, snapshot.StatusQueued) {
		return page, nil
	}
	for i := range m.n {
		page.Runs = append(page.Runs, m.info(i))
	}
	return page, nil
}

func (m *manyRuns) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.made[runID] {
		var i int
		if _, err := fmt.Sscanf(runID, "run-%d", &i); err != nil {
			return snapshot.Info{}, err
		}
		m.made[runID] = true
		run, err := snapshot.NewRun(m.info(i), m.input.Records())
		if err != nil {
			return snapshot.Info{}, err
		}
		if _, err := m.Create(ctx, run); err != nil {
			return snapshot.Info{}, err
		}
	}
	return m.Store.Info(ctx, runID)
}

// inputRun returns a run that was started but has not begun.
func inputRun(t testing.TB) *snapshot.Run {
	store := memstore.New()
	r, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	program := runner.Register(r, decorators.Agent("wake", "", func(context.Context, word) (string, error) { return "", nil }))
	_, err = program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
	require.NoError(t, err)
	run, err := store.Load(t.Context(), "a")
	require.NoError(t, err)
	return run
}

const parked = 20_000

func TestParkedRunsTakeLittleMemory(t *testing.T) {
	m := &manyRuns{
		Store: memstore.New(), n: parked, input: inputRun(t), made: make(map[string]bool),
		due: func(i int) time.Time { return time.Now().Add(time.Hour + time.Duration(i)*time.Second) },
	}
	r := newRunner(t, m, runner.Options{SweepEvery: time.Hour})
	runner.Register(r, agent("wake", func(context.Context, word) (string, error) { return "", nil }))
	before := heap()
	stop := serve(t, r)
	for r.Stats().Parked < parked {
		runtime.Gosched()
	}
	bytes := (heap() - before) / parked
	t.Logf("%d bytes for each of %d parked runs", bytes, parked)
	assert.LessOrEqual(t, bytes, 300)
	require.NoError(t, stop())
	runtime.KeepAlive(r)
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

func TestParkedRunsWakeInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		const n = 2000
		rng := rand.New(rand.NewPCG(1, 2))
		at := make([]time.Duration, n)
		for i := range at {
			at[i] = time.Hour + time.Duration(rng.IntN(1_000_000))*time.Second
		}
		m := &manyRuns{
			Store: memstore.New(), n: n, input: inputRun(t), made: make(map[string]bool),
			due: func(i int) time.Time { return begin.Add(at[i]) },
		}
		r := newRunner(t, m, runner.Options{SweepEvery: 10_000 * time.Hour})
		var mu sync.Mutex
		var woken []time.Duration
		runner.Register(r, agent("wake", func(context.Context, word) (string, error) {
			mu.Lock()
			defer mu.Unlock()
			woken = append(woken, time.Since(begin))
			return "", nil
		}))
		defer serve(t, r)()
		sleep(time.Hour + 1_000_000*time.Second)
		synctest.Wait()
		slices.Sort(at)
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, at, woken)
	})
}
