package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/reprise-go/reprise/record"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

type word struct {
	Text string `json:"text"`
}

func agent(name string, f func(context.Context, word) (string, error), opts ...actors.Option) actors.Agent[word, string] {
	return decorators.Agent(name, "", f, opts...)
}

var echo = agent("echo", func(_ context.Context, in word) (string, error) { return in.Text, nil })

func newRunner(t *testing.T, store snapshot.Store, o runner.Options) *runner.Runner {
	t.Helper()
	r, err := runner.New(store, o)
	require.NoError(t, err)
	return r
}

// serve lets the runner serve until stop is called or the test ends.
func serve(t *testing.T, r *runner.Runner) (stop func() error) {
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	var serving sync.WaitGroup
	serving.Go(func() { err = r.Serve(ctx) })
	stop = func() error {
		cancel()
		serving.Wait()
		return err
	}
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestStartedRunEndsAndItsResultIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		program := runner.Register(r, echo)
		defer serve(t, r)()
		info, err := program.Start(t.Context(), "a", word{"hello"}, runner.StartOptions{Metadata: snapshot.Metadata{Tags: []string{"x"}}})
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusQueued, info.Status)
		assert.Equal(t, "echo", info.Program)
		assert.Equal(t, "1", info.Version)

		info, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.Equal(t, []string{"x"}, info.Metadata.Tags)
		out, err := program.Result(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "hello", out)
		in, err := state.Input[word](t.Context(), r.Store(), "a")
		require.NoError(t, err)
		assert.Equal(t, word{"hello"}, in)
		page, err := r.List(t.Context(), snapshot.Filter{Program: "echo"})
		require.NoError(t, err)
		assert.Len(t, page.Runs, 1)
	})
}

func TestStartIsIdempotentByRunID(t *testing.T) {
	r := newRunner(t, memstore.New(), runner.Options{})
	runner.Register(r, echo)
	runner.Register(r, agent("other", func(context.Context, word) (string, error) { return "", nil }))
	first, err := r.Start(t.Context(), "echo", "a", word{"x"}, runner.StartOptions{})
	require.NoError(t, err)
	again, err := r.Start(t.Context(), "echo", "a", json.RawMessage(`{"text": "x"}`), runner.StartOptions{Priority: 7})
	require.NoError(t, err)
	assert.Equal(t, first, again)
	_, err = r.Start(t.Context(), "echo", "a", word{"y"}, runner.StartOptions{})
	require.ErrorIs(t, err, runner.ErrStarted)
	assert.ErrorContains(t, err, `"y"`)
	_, err = r.Start(t.Context(), "other", "a", word{"x"}, runner.StartOptions{})
	require.ErrorIs(t, err, runner.ErrStarted)
	assert.ErrorContains(t, err, `program "echo", not "other"`)

	random, err := r.Start(t.Context(), "echo", "", word{"x"}, runner.StartOptions{})
	require.NoError(t, err)
	assert.Regexp(t, "^echo-[a-z0-9]{16}$", random.RunID)
}

// A slowStore takes a second to store a run. The run's ID is taken in the meantime.
type slowStore struct {
	*memstore.Store
	taken atomic.Bool
}

func (s *slowStore) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	if s.taken.Swap(true) {
		return snapshot.Info{}, snapshot.ErrExists
	}
	sleep(time.Second)
	return s.Store.Create(ctx, run)
}

// A client that repeats a start too early gets the run even though the first start is still storing
// it.
func TestStartThatIsRepeatedWhileItIsStoredReturnsTheRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, &slowStore{Store: memstore.New()}, runner.Options{})
		program := runner.Register(r, echo)
		var first snapshot.Info
		var starting sync.WaitGroup
		starting.Go(func() {
			var err error
			first, err = program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
			assert.NoError(t, err)
		})
		synctest.Wait()
		again, isNew, err := r.StartOrGet(t.Context(), "echo", "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		starting.Wait()
		assert.False(t, isNew)
		assert.Equal(t, first, again)
	})
}

func TestBadStartsStoreNothing(t *testing.T) {
	store := memstore.New()
	r := newRunner(t, store, runner.Options{})
	_, err := r.Start(t.Context(), "echo", "a", word{}, runner.StartOptions{})
	require.ErrorIs(t, err, runner.ErrNotRegistered)
	assert.ErrorContains(t, err, `program "echo" is not registered; no program is`)
	program := runner.Register(r, echo, runner.WithVersion("2"))
	for name, c := range map[string]struct {
		start func() (snapshot.Info, error)
		is    error
		want  string
	}{
		"program": {func() (snapshot.Info, error) {
			return r.Start(t.Context(), "ecco", "a", word{}, runner.StartOptions{})
		}, runner.ErrNotRegistered, `program "ecco" is not registered; want one of echo 2`},
		"version": {func() (snapshot.Info, error) {
			return program.Start(t.Context(), "a", word{}, runner.StartOptions{Version: "1"})
		}, runner.ErrNotRegistered, `program "echo", version "1", is not registered; want one of echo 2`},
		"type": {func() (snapshot.Info, error) {
			return r.Start(t.Context(), "echo", "a", 7, runner.StartOptions{})
		}, runner.ErrInput, "got an input of type int, want runner_test.word"},
		"json": {func() (snapshot.Info, error) {
			return r.Start(t.Context(), "echo", "a", json.RawMessage(`{"text": 7}`), runner.StartOptions{})
		}, runner.ErrInput, "text"},
		"missing field": {func() (snapshot.Info, error) {
			return r.Start(t.Context(), "echo", "a", json.RawMessage(`{}`), runner.StartOptions{})
		}, runner.ErrInput, "text"},
		"run ID": {func() (snapshot.Info, error) {
			return program.Start(t.Context(), "../a", word{}, runner.StartOptions{})
		}, nil, "not allowed"},
		"time": {func() (snapshot.Info, error) {
			return program.Start(t.Context(), "a", word{}, runner.StartOptions{At: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)})
		}, nil, "due_at"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.start()
			require.Error(t, err)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
			assert.ErrorContains(t, err, c.want)
			page, err := store.List(t.Context(), snapshot.Filter{})
			require.NoError(t, err)
			assert.Empty(t, page.Runs)
		})
	}
}

func TestBadDefinitionsPanic(t *testing.T) {
	r := newRunner(t, memstore.New(), runner.Options{})
	runner.Register(r, echo)
	assert.PanicsWithError(t, `runner: program "echo", version 1, is already registered; register different code as another version (runner.WithVersion)`,
		func() { runner.Register(r, echo) })
	assert.Panics(t, func() { runner.Register(r, echo, runner.WithVersion("a b")) })
	assert.Panics(t, func() { runner.Register(r, actors.Agent[word, string]{}) })
	for _, o := range []runner.Options{{Limit: -1}, {MaxRestarts: -1}, {SweepEvery: -1}} {
		_, err := runner.New(memstore.New(), o)
		assert.Error(t, err)
	}
	_, err := runner.New(nil, runner.Options{})
	assert.Error(t, err)
}

func TestLimitBoundsRunsAndPriorityOrdersThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{Limit: 2})
		var mu sync.Mutex
		var order []string
		var open, most atomic.Int32
		program := runner.Register(r, agent("work", func(ctx context.Context, in word) (string, error) {
			mu.Lock()
			order = append(order, in.Text)
			mu.Unlock()
			most.Store(max(most.Load(), open.Add(1)))
			defer open.Add(-1)
			sleep(time.Minute)
			return "", nil
		}))
		at := time.Now().Add(90 * time.Second)
		for _, c := range []struct {
			id       string
			priority int
			at       time.Time
		}{{"low1", 0, time.Time{}}, {"low2", 0, time.Time{}}, {"high", 5, time.Time{}}, {"low3", 0, time.Time{}}, {"later", 9, at}, {"never", -3, time.Time{}}} {
			_, err := program.Start(t.Context(), c.id, word{c.id}, runner.StartOptions{Priority: c.priority, At: c.at})
			require.NoError(t, err)
			sleep(time.Millisecond)
		}
		assert.Equal(t, 5, r.Stats().Queued)
		assert.Equal(t, 1, r.Stats().Parked)
		stop := serve(t, r)
		for _, id := range []string{"low1", "low2", "high", "low3", "later", "never"} {
			_, err := r.Wait(t.Context(), id)
			require.NoError(t, err)
		}
		require.NoError(t, stop())
		assert.EqualValues(t, 2, most.Load())
		assert.ElementsMatch(t, []string{"high", "low1"}, order[:2])
		assert.ElementsMatch(t, []string{"low2", "low3"}, order[2:4])
		assert.ElementsMatch(t, []string{"later", "never"}, order[4:])
	})
}

// sleep is for tests in a synctest bubble.
func sleep(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // the clock of synctest

func TestFailedRunHasTheErrorAsItsResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		runner.Register(r, agent("fail", func(context.Context, word) (string, error) { return "", errors.New("out of ink") }))
		runner.Register(r, agent("panic", func(context.Context, word) (string, error) { panic("oh") }))
		for _, name := range []string{"fail", "panic"} {
			_, err := r.Start(t.Context(), name, name, word{}, runner.StartOptions{})
			require.NoError(t, err)
			_, err = r.Result(t.Context(), name)
			assert.ErrorIs(t, err, state.ErrNotEnded)
		}
		defer serve(t, r)()
		for _, name := range []string{"fail", "panic"} {
			info, err := r.Wait(t.Context(), name)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusFailed, info.Status)
			_, err = r.Result(t.Context(), name)
			var failed *core.CallError
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, name, failed.Name)
		}
		_, err := r.Result(t.Context(), "none")
		assert.ErrorIs(t, err, snapshot.ErrNotFound)
		_, err = r.Wait(t.Context(), "none")
		assert.ErrorIs(t, err, snapshot.ErrNotFound)
		assert.ErrorIs(t, r.Resume(t.Context(), "fail"), state.ErrNotInterrupted)
	})
}

// patient returns an agent that waits for its context to end the first times-1 times that it is
// entered.
func patient(name string, entered *atomic.Int32, times int32) actors.Agent[word, string] {
	return agent(name, func(ctx context.Context, in word) (string, error) {
		if entered.Add(1) >= times {
			return in.Text, nil
		}
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
}

func TestInterruptedRunContinuesWhenItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		var entered atomic.Int32
		program := runner.Register(r, patient("patient", &entered, 2))
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, r.Interrupt(t.Context(), "a", snapshot.Stop{By: "ops", Message: "lunch"}))
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)
		assert.Equal(t, snapshot.Stop{Reason: record.InterruptUser, By: "ops", Message: "lunch"}, info.Stop)
		require.ErrorIs(t, r.Interrupt(t.Context(), "a", snapshot.Stop{}), state.ErrNotRunning)
		require.NoError(t, stop())

		r = newRunner(t, store, runner.Options{}) // the run stays interrupted after a restart
		runner.Register(r, patient("patient", &entered, 2))
		stop = serve(t, r)
		sleep(time.Minute)
		assert.EqualValues(t, 1, entered.Load())
		require.NoError(t, stop())

		r = newRunner(t, store, runner.Options{})
		runner.Register(r, patient("patient", &entered, 2))
		require.NoError(t, r.Resume(t.Context(), "a"))
		require.NoError(t, r.Resume(t.Context(), "a"), "a second Resume before the run has continued")
		defer serve(t, r)()
		info, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
	})
}

func TestQueuedRunIsInterruptedAndCancelledWhereItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		program := runner.Register(r, echo)
		for _, id := range []string{"a", "b"} {
			_, err := program.Start(t.Context(), id, word{id}, runner.StartOptions{At: time.Now().Add(time.Hour)})
			require.NoError(t, err)
		}
		defer serve(t, r)()
		require.NoError(t, r.Interrupt(t.Context(), "a", snapshot.Stop{By: "ops"}))
		require.NoError(t, r.Cancel(t.Context(), "b", snapshot.Stop{By: "ops"}))
		sleep(2 * time.Hour)
		info, err := r.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)
		info, err = r.Info(t.Context(), "b")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
		assert.Error(t, r.Resume(t.Context(), "b"))
		require.NoError(t, r.Resume(t.Context(), "a"))
		info, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
	})
}

func TestCancelledRunDoesNotContinue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		var entered atomic.Int32
		program := runner.Register(r, patient("patient", &entered, 2))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, r.Cancel(t.Context(), "a", snapshot.Stop{By: "ops", Message: "wrong"}))
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
		sleep(time.Hour)
		assert.EqualValues(t, 1, entered.Load())
	})
}

func TestAnsweredRunContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		ask := agent("ask", func(ctx context.Context, in word) (string, error) {
			name, err := core.Await[string](ctx, "who?")
			if err != nil {
				return "", err
			}
			more, err := core.Await[string](ctx, "and?")
			return name + more, err
		})
		program := runner.Register(r, ask)
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		questions, err := r.Questions(t.Context(), "a")
		require.NoError(t, err)
		require.Len(t, questions, 1)
		require.NoError(t, r.Answer(t.Context(), "a", questions[0].ID, "", "Ada"))
		require.ErrorIs(t, r.Answer(t.Context(), "a", questions[0].ID, "", "Bob"), state.ErrAnswered)
		synctest.Wait()
		// The answer comes from another process, so the next sweep finds it.
		require.NoError(t, state.Answer(t.Context(), store, "a", "ask?2", "", "!"))
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		out, err := program.Result(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "Ada!", out)
	})
}

func TestShutdownLetsRunsFinishAndInterruptsTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Grace: time.Minute, Limit: 2})
		var entered atomic.Int32
		patientProgram := runner.Register(r, patient("patient", &entered, 2))
		short := runner.Register(r, agent("short", func(context.Context, word) (string, error) {
			sleep(30 * time.Second)
			return "", nil
		}))
		stop := serve(t, r)
		for _, id := range []string{"long", "waiting"} {
			_, err := patientProgram.Start(t.Context(), id, word{id}, runner.StartOptions{Priority: map[string]int{"waiting": -1}[id]})
			require.NoError(t, err)
			_, err = short.Start(t.Context(), "short-"+id, word{}, runner.StartOptions{Priority: map[string]int{"waiting": -1}[id]})
			require.NoError(t, err)
			synctest.Wait()
		}
		began := time.Now()
		require.NoError(t, stop())
		assert.Equal(t, time.Minute, time.Since(began))
		for id, want := range map[string]snapshot.Status{
			"long": snapshot.StatusInterrupted, "short-long": snapshot.StatusCompleted,
			"waiting": snapshot.StatusQueued, "short-waiting": snapshot.StatusQueued,
		} {
			info, err := store.Info(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, want, info.Status, id)
		}
		info, err := store.Info(t.Context(), "long")
		require.NoError(t, err)
		assert.Equal(t, record.InterruptShutdown, info.Stop.Reason)

		// The run continues at the next start, with the same attempt.
		r = newRunner(t, store, runner.Options{})
		program := runner.Register(r, patient("patient", &entered, 2))
		runner.Register(r, agent("short", func(context.Context, word) (string, error) { return "", nil }))
		defer serve(t, r)()
		for _, id := range []string{"long", "waiting", "short-waiting"} {
			info, err := r.Wait(t.Context(), id)
			require.NoError(t, err)
			assert.Equal(t, snapshot.StatusCompleted, info.Status, id)
			assert.Zero(t, info.Restarts)
		}
		out, err := program.Result(t.Context(), "long")
		require.NoError(t, err)
		assert.Equal(t, "long", out)
		run, err := store.Load(t.Context(), "long")
		require.NoError(t, err)
		for rec, err := range run.Records() {
			require.NoError(t, err)
			assert.Zero(t, rec.Attempt)
		}
	})
}

func TestRunThatIgnoresItsContextIsClosedAndNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Grace: -1})
		release := make(chan struct{})
		program := runner.Register(r, agent("deaf", func(context.Context, word) (string, error) {
			<-release
			return "", nil
		}))
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		err = stop()
		require.ErrorIs(t, err, runner.ErrNotStopped)
		assert.ErrorContains(t, err, ": a")
		info, err := store.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.False(t, info.Open)
		assert.Equal(t, record.InterruptShutdown, info.Stop.Reason)
		close(release)
	})
}

func TestServeServesOnce(t *testing.T) {
	r := newRunner(t, memstore.New(), runner.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, r.Serve(ctx))
	assert.ErrorContains(t, r.Serve(ctx), "serves once")
}

func TestRunsOfAnOlderVersionGoToTheRunnerThatRegisteredIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		version := func(v string) actors.Agent[word, string] {
			return agent("versioned", func(context.Context, word) (string, error) { return "by " + v, nil })
		}
		r := newRunner(t, store, runner.Options{})
		runner.Register(r, version("1"), runner.WithVersion("1"))
		_, err := r.Start(t.Context(), "versioned", "old", word{}, runner.StartOptions{})
		require.NoError(t, err)

		newer := newRunner(t, store, runner.Options{})
		runner.Register(newer, version("2"), runner.WithVersion("2"))
		defer serve(t, newer)()
		_, err = newer.Start(t.Context(), "versioned", "new", word{}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = newer.Wait(t.Context(), "new")
		require.NoError(t, err)
		sleep(time.Minute)
		info, err := newer.Info(t.Context(), "old")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusQueued, info.Status)

		both := newRunner(t, store, runner.Options{})
		runner.Register(both, version("1"), runner.WithVersion("1"))
		runner.Register(both, version("2"), runner.WithVersion("2"))
		defer serve(t, both)()
		_, err = both.Wait(t.Context(), "old")
		require.NoError(t, err)
		out, err := both.Result(t.Context(), "old")
		require.NoError(t, err)
		assert.Equal(t, "by 1", out)
	})
}

func TestOneRunnerHasARunAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		var open atomic.Int32
		for range 3 {
			r := newRunner(t, store, runner.Options{SweepEvery: time.Second})
			program := runner.Register(r, agent("work", func(_ context.Context, in word) (string, error) {
				assert.EqualValues(t, 1, open.Add(1))
				defer open.Add(-1)
				sleep(time.Minute)
				return in.Text, nil
			}))
			_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
			require.NoError(t, err)
			stop := serve(t, r)
			t.Cleanup(func() { assert.NoError(t, stop()) })
		}
		r := newRunner(t, store, runner.Options{})
		for {
			info, err := r.Info(t.Context(), "a")
			require.NoError(t, err)
			if info.Status == snapshot.StatusCompleted {
				assert.EqualValues(t, 1, info.Generation)
				return
			}
			sleep(time.Second)
		}
	})
}

func TestRunThatCannotBeOpenedDoesNotStopTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		// A run of the program without an input.
		bad, err := snapshot.NewRun(snapshot.Info{RunID: "bad", Status: snapshot.StatusQueued, Program: "echo", Version: "1"}, nil)
		require.NoError(t, err)
		_, err = store.Create(t.Context(), bad)
		require.NoError(t, err)
		var troubles []runner.Notice
		var mu sync.Mutex
		r := newRunner(t, store, runner.Options{Observe: func(e runner.Notice) {
			mu.Lock()
			defer mu.Unlock()
			if e.Type == runner.NoticeTrouble {
				troubles = append(troubles, e)
			}
		}})
		program := runner.Register(r, echo)
		defer serve(t, r)()
		_, err = program.Start(t.Context(), "good", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "good")
		require.NoError(t, err)
		sleep(time.Hour)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, troubles, 1, "the run is reported once")
		assert.Equal(t, "bad", troubles[0].RunID)
		assert.ErrorContains(t, troubles[0].Err, "input")
	})
}

// awayStore is a store that cannot be reached at first.
type awayStore struct {
	*memstore.Store
	failures atomic.Int32
}

func (s *awayStore) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	if s.failures.Add(-1) >= 0 {
		return nil, fmt.Errorf("%w: nobody answers", snapshot.ErrUnavailable)
	}
	return s.Store.Open(ctx, runID, o)
}

func TestRunWhoseStoreWasAwayContinuesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &awayStore{Store: memstore.New()}
		store.failures.Store(3)
		var troubles atomic.Int32
		r := newRunner(t, store, runner.Options{Observe: func(e runner.Notice) {
			if e.Type == runner.NoticeTrouble {
				troubles.Add(1)
			}
		}})
		program := runner.Register(r, echo)
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
		assert.EqualValues(t, 3, troubles.Load())
	})
}

// silentStore does not return a run's info once the run has been opened.
type silentStore struct {
	*memstore.Store
	silent atomic.Bool
}

func (s *silentStore) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	if s.silent.Load() {
		return snapshot.Info{}, fmt.Errorf("%w: nobody answers", snapshot.ErrUnavailable)
	}
	return s.Store.Info(ctx, runID)
}

func TestEachRunThatBeganEndsForObservers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &silentStore{Store: memstore.New()}
		ended := make(chan runner.Notice, 1)
		r := newRunner(t, store, runner.Options{Observe: func(e runner.Notice) {
			if e.Type == runner.NoticeClosed {
				ended <- e
			}
		}})
		program := runner.Register(r, agent("a", func(context.Context, word) (string, error) {
			store.silent.Store(true)
			return "", nil
		}))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		sleep(time.Minute)
		require.Len(t, ended, 1)
		e := <-ended
		assert.Equal(t, snapshot.StatusCompleted, e.Status)
		require.ErrorIs(t, e.Err, snapshot.ErrUnavailable)
		assert.EqualValues(t, 1, r.Stats().Completed)
	})
}

func TestInvalidOptionsOfRunsAreRefused(t *testing.T) {
	_, err := runner.New(memstore.New(), runner.Options{Run: []state.Option{state.WithPublisher(nil), state.WithRunID("a")}})
	require.ErrorContains(t, err, "runner: Options.Run: state: WithPublisher got nil")
	assert.ErrorContains(t, err, "WithRunID has no effect in Open")
}
