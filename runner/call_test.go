package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/caller"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// calling is an agent that calls two runs of "child", one after the other.
var calling = agent("calling", func(ctx context.Context, in word) (string, error) {
	var all string
	for n := range 2 {
		out, err := runner.Call[string](ctx, "child", word{fmt.Sprint(in.Text, n)})
		if err != nil {
			return "", err
		}
		all += out
	}
	return all, nil
})

// There is only one slot. A run that kept the slot while waiting for the runs that it has called
// would wait forever.
func TestRunCallsOthersWithoutASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{Limit: 1, MaxQueued: 1})
		var ran atomic.Int64
		runner.Register(r, agent("child", func(_ context.Context, in word) (string, error) {
			ran.Add(1)
			sleep(time.Hour)
			return "<" + in.Text + ">", nil
		}))
		program := runner.Register(r, calling)
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		info, err := r.Wait(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusCompleted, info.Status)
		out, err := program.Result(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "<x0><x1>", out)
		assert.EqualValues(t, 2, ran.Load())
		page, err := store.List(t.Context(), snapshot.Filter{Program: "child"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 2)
		by, ok := caller.Of(&page.Runs[0].Metadata)
		require.True(t, ok)
		assert.Equal(t, "a", by.RunID)
	})
}

// Call waits for a called run that has stopped, and returns an error if the run ends
// without an output.
func TestCallEndsAsTheCalledRunDoes(t *testing.T) {
	errOut := errors.New("out of ink")
	for name, c := range map[string]struct {
		do   func(t *testing.T, r *runner.Runner, child string)
		want string
	}{
		"fails": {func(*testing.T, *runner.Runner, string) {}, "has ended as failed: "},
		"cancelled when paused": {func(t *testing.T, r *runner.Runner, child string) {
			require.NoError(t, r.Cancel(t.Context(), child, snapshot.Stop{By: "ann"}))
		}, "has ended as cancelled: "},
		"cancelled elsewhere": {func(t *testing.T, r *runner.Runner, child string) {
			require.NoError(t, state.Cancel(t.Context(), r.Store(), child, snapshot.Stop{By: "ann"}))
		}, "has ended as cancelled: "},
		"cancelled, and undone by its next opening": {func(t *testing.T, r *runner.Runner, child string) {
			require.NoError(t, state.Cancel(t.Context(), r.Store(), child, snapshot.Stop{By: "ann"}))
		}, "has ended as cancelled: "},
		"interrupted and resumed": {func(t *testing.T, r *runner.Runner, child string) {
			require.NoError(t, r.Interrupt(t.Context(), child, snapshot.Stop{}))
			sleep(time.Hour)
			require.NoError(t, r.Resume(t.Context(), child))
			synctest.Wait()
			require.NoError(t, r.Answer(t.Context(), child, "child?1", "", true))
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				r := newRunner(t, store, runner.Options{})
				book := decorators.Tool("book", "", func(context.Context, word) (string, error) { return "booked", nil }).
					Compensate(func(context.Context, word, string) error { return nil })
				runner.Register(r, agent("child", func(ctx context.Context, in word) (string, error) {
					switch name {
					case "fails":
						return "", core.Permanent(errOut)
					case "cancelled, and undone by its next opening":
						if _, err := book.Call(ctx, in); err != nil {
							return "", err
						}
					}
					_, err := core.Await[bool](ctx, "well?")
					return "out", err
				}), runner.WithCompensations(book))
				program := runner.Register(r, agent("one", func(ctx context.Context, in word) (string, error) {
					return runner.Call[string](ctx, "child", in)
				}))
				defer serve(t, r)()
				_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
				synctest.Wait()
				page, err := store.List(t.Context(), snapshot.Filter{Program: "child"})
				require.NoError(t, err)
				require.Len(t, page.Runs, 1)
				c.do(t, r, page.Runs[0].RunID)
				waitADay(t, r, "a")
				out, err := program.Result(t.Context(), "a")
				if c.want == "" {
					require.NoError(t, err)
					assert.Equal(t, "out", out)
					return
				}
				require.ErrorContains(t, err, c.want)
				var called *runner.CalledError
				require.ErrorAs(t, err, &called)
				assert.Equal(t, page.Runs[0].RunID, called.RunID)
			})
		})
	}
}

// The called run is cancelled while it is open, and its process is killed before it can close the
// run.
func TestCallEndsIfTheCalledRunIsCancelledAndKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &copiedStore{Store: memstore.New()}
		killed := make(chan struct{})
		programs := func(r *runner.Runner) *runner.Program[word, string] {
			runner.Register(r, agent("child", func(context.Context, word) (string, error) { <-killed; return "", nil }))
			return runner.Register(r, agent("one", func(ctx context.Context, in word) (string, error) {
				return runner.Call[string](ctx, "child", in)
			}))
		}
		r := newRunner(t, store, runner.Options{})
		program := programs(r)
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		page, err := store.List(t.Context(), snapshot.Filter{Program: "child"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.NoError(t, state.Cancel(t.Context(), store, page.Runs[0].RunID, snapshot.Stop{By: "ann"}))
		left := store.copied(t)
		close(killed)
		require.NoError(t, stop())

		r = newRunner(t, left, runner.Options{Limit: 1})
		program = programs(r)
		defer serve(t, r)()
		waitADay(t, r, "a")
		_, err = program.Result(t.Context(), "a")
		require.ErrorContains(t, err, "has ended as cancelled: ")
	})
}

// A called run has failed and is retried. The run that called it is then retried too, and gets the
// output even if it is retried before the called run has ended.
func TestRetriedRunSeesTheRetryOfTheRunItCalled(t *testing.T) {
	for name, isDone := range map[string]bool{"that has ended": true, "that is running": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				r := newRunner(t, store, runner.Options{})
				isBad := true
				runner.Register(r, agent("child", func(context.Context, word) (string, error) {
					if isBad {
						return "", errors.New("out of ink")
					}
					sleep(time.Minute)
					return "out", nil
				}))
				program := runner.Register(r, agent("one", func(ctx context.Context, in word) (string, error) {
					return runner.Call[string](ctx, "child", in)
				}, actors.WithRetry(core.RetryConfig{MaxAttempts: 3}))) // the error is permanent
				defer serve(t, r)()
				_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
				waitADay(t, r, "a")
				page, err := store.List(t.Context(), snapshot.Filter{Program: "child"})
				require.NoError(t, err)
				require.Len(t, page.Runs, 1)
				_, err = program.Result(t.Context(), "a")
				require.ErrorContains(t, err, "has ended as failed: ")

				isBad = false
				require.NoError(t, r.Retry(t.Context(), page.Runs[0].RunID))
				if isDone {
					waitADay(t, r, page.Runs[0].RunID)
				}
				require.NoError(t, r.Retry(t.Context(), "a"))
				waitADay(t, r, "a")
				out, err := program.Result(t.Context(), "a")
				require.NoError(t, err)
				assert.Equal(t, "out", out)
			})
		})
	}
}

// The calling run fails because one of the runs that it called has failed. Another called run ends
// only after that. Then both the failed called run and the calling run are retried.
func TestRetriedRunSeesTheEndOfARunThatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		isBad := true
		runner.Register(r, agent("child", func(ctx context.Context, in word) (string, error) {
			switch {
			case in.Text == "slow":
				return in.Text, core.Sleep(ctx, time.Hour)
			case isBad:
				return "", errors.New("out of ink")
			}
			return in.Text, nil
		}))
		branch := agent("branch", func(ctx context.Context, in word) (string, error) { return runner.Call[string](ctx, "child", in) })
		program := runner.Register(r, agent("both", func(ctx context.Context, _ word) (string, error) {
			outs, err := actors.Map(ctx, actors.Group{Name: "g"}, branch, []word{{"slow"}, {"fast"}})
			return strings.Join(outs, ","), err
		}))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		waitADay(t, r, "a")
		_, err = program.Result(t.Context(), "a")
		require.Error(t, err)
		page, err := store.List(t.Context(), snapshot.Filter{Program: "child"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 2)
		for i := range page.Runs {
			waitADay(t, r, page.Runs[i].RunID)
		}
		isBad = false
		for i := range page.Runs {
			if err := r.Retry(t.Context(), page.Runs[i].RunID); !errors.Is(err, state.ErrNotFailed) {
				require.NoError(t, err)
				waitADay(t, r, page.Runs[i].RunID)
			}
		}
		require.NoError(t, r.Retry(t.Context(), "a"))
		waitADay(t, r, "a")
		out, err := program.Result(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, "slow,fast", out)
	})
}

// The called run is deleted while the calling run is interrupted.
func TestCallOfADeletedRunFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		runner.Register(r, agent("child", func(ctx context.Context, _ word) (string, error) { return "", core.Sleep(ctx, time.Hour) }))
		program := runner.Register(r, agent("one", func(ctx context.Context, in word) (string, error) {
			return runner.Call[string](ctx, "child", in)
		}))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, r.Interrupt(t.Context(), "a", snapshot.Stop{}))
		sleep(2 * time.Hour)
		page, err := store.List(t.Context(), snapshot.Filter{Program: "child"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		require.NoError(t, store.Delete(t.Context(), page.Runs[0].RunID))
		require.NoError(t, r.Resume(t.Context(), "a"))
		waitADay(t, r, "a")
		_, err = program.Result(t.Context(), "a")
		var called *runner.CalledError
		require.ErrorAs(t, err, &called)
		assert.Empty(t, called.Status)
	})
}

// lostStore is a store that cannot be reached when a run of "child" is created, and when it is
// loaded for the first time.
type lostStore struct {
	snapshot.Store
	created, loaded atomic.Bool
}

func (s *lostStore) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	if run.Program == "child" && !s.created.Swap(true) {
		return snapshot.Info{}, snapshot.ErrUnavailable
	}
	return s.Store.Create(ctx, run)
}

func (s *lostStore) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if strings.HasPrefix(runID, "child") && !s.loaded.Swap(true) {
		return nil, snapshot.ErrUnavailable
	}
	return s.Store.Load(ctx, runID)
}

// A calling run does not fail if the store cannot be reached for a while.
func TestCallContinuesWhenTheStoreIsBack(t *testing.T) {
	for name, of := range map[string]func(context.Context) context.Context{
		"the context of the handler":      func(ctx context.Context) context.Context { return ctx },
		"a context that is not cancelled": context.WithoutCancel,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &lostStore{Store: memstore.New()}
				r := newRunner(t, store, runner.Options{})
				runner.Register(r, agent("child", func(_ context.Context, in word) (string, error) { return in.Text, nil }))
				program := runner.Register(r, agent("one", func(ctx context.Context, in word) (string, error) {
					return runner.Call[string](of(ctx), "child", in)
				}))
				defer serve(t, r)()
				_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
				require.NoError(t, err)
				waitADay(t, r, "a")
				out, err := program.Result(t.Context(), "a")
				require.NoError(t, err)
				assert.Equal(t, "x", out)
				assert.True(t, store.created.Load() && store.loaded.Load())
			})
		})
	}
}

// damagedCaller is a store in which the records of the run "a" cannot be read.
type damagedCaller struct{ snapshot.Store }

func (s damagedCaller) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if runID == "a" {
		return nil, snapshot.ErrCorrupt
	}
	return s.Store.Load(ctx, runID)
}

func TestCalledRunIsCancelledEvenIfItsCallerCannotBeTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		r := newRunner(t, store, runner.Options{})
		runner.Register(r, agent("child", func(ctx context.Context, in word) (string, error) { return in.Text, core.Sleep(ctx, time.Hour) }))
		program := runner.Register(r, agent("one", func(ctx context.Context, in word) (string, error) {
			return runner.Call[string](ctx, "child", in)
		}))
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, stop())
		page, err := store.List(t.Context(), snapshot.Filter{Program: "child"})
		require.NoError(t, err)
		require.Len(t, page.Runs, 1)
		child := page.Runs[0].RunID

		require.ErrorIs(t, state.Cancel(t.Context(), damagedCaller{store}, child, snapshot.Stop{By: "ann"}), snapshot.ErrCorrupt)
		info, err := store.Info(t.Context(), child)
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
	})
}

// waitADay waits for a run to end, for at most a day.
func waitADay(t *testing.T, r *runner.Runner, runID string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
	defer cancel()
	_, err := r.Wait(ctx, runID)
	require.NoError(t, err)
}

func TestCallsThatCannotBeMadeAreErrors(t *testing.T) {
	_, err := runner.Call[string](t.Context(), "child", word{})
	require.ErrorIs(t, err, runner.ErrNoRunner)
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		runner.Register(r, echo)
		program := runner.Register(r, agent("calling", func(ctx context.Context, in word) (string, error) {
			if in.Text == "unknown" {
				return runner.Call[string](ctx, "ecco", in)
			}
			return runner.Call[string](ctx, "echo", json.RawMessage(`{"text": 7}`))
		}))
		defer serve(t, r)()
		for id, want := range map[string]error{"unknown": runner.ErrNotRegistered, "unfit": runner.ErrInput} {
			_, err := program.Start(t.Context(), id, word{id}, runner.StartOptions{})
			require.NoError(t, err)
			_, err = r.Wait(t.Context(), id)
			require.NoError(t, err)
			_, err = program.Result(t.Context(), id)
			require.ErrorIs(t, err, want)
		}
	})
}

// TestRunsAreCalledOnceAcrossCrashes kills the process after each record of the calling run, and
// after each record of a called run. At the end, there are two called runs, and both have
// completed.
func TestRunsAreCalledOnceAcrossCrashes(t *testing.T) {
	for after := 1; ; after++ {
		done := false
		synctest.Test(t, func(t *testing.T) { done = killedAfter(t, after) })
		if done {
			require.Greater(t, after, 10)
			return
		}
	}
}

// killedAfter kills the process after the given number of records. It reports whether
// the run ended before that.
func killedAfter(t *testing.T, after int) (done bool) {
	store := &copiedStore{Store: memstore.New()}
	programs := func(r *runner.Runner) *runner.Program[word, string] {
		runner.Register(r, agent("child", func(_ context.Context, in word) (string, error) { return "<" + in.Text + ">", nil }))
		return runner.Register(r, calling)
	}
	var killed atomic.Pointer[memstore.Store]
	var n atomic.Int64
	r := newRunner(t, store, runner.Options{Run: []state.Option{state.WithPublisher(publishing(func(record.Record) {
		if n.Add(1) == int64(after) {
			killed.Store(store.copied(t))
		}
	}))}})
	stop := serve(t, r)
	_, err := programs(r).Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
	require.NoError(t, err)
	_, err = r.Wait(t.Context(), "a")
	require.NoError(t, err)
	require.NoError(t, stop())
	left := killed.Load()
	if left == nil {
		return true
	}
	r = newRunner(t, left, runner.Options{Limit: 1})
	program := programs(r)
	defer serve(t, r)()
	_, err = r.Wait(t.Context(), "a")
	require.NoError(t, err)
	out, err := program.Result(t.Context(), "a")
	require.NoError(t, err, "after %d", after)
	assert.Equal(t, "<x0><x1>", out)
	page, err := left.List(t.Context(), snapshot.Filter{Program: "child"})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 2, "after %d", after)
	return false
}

type publishing func(record.Record)

func (p publishing) Publish(r record.Record) { p(r) }

// copiedStore is a store that does not change while it is being copied. Otherwise, a copy could
// contain one run as it was before a message and another run as it was after it.
type copiedStore struct {
	snapshot.Store
	changing sync.RWMutex
}

func (s *copiedStore) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	s.changing.RLock()
	defer s.changing.RUnlock()
	return s.Store.Create(ctx, run)
}

func (s *copiedStore) Post(ctx context.Context, runID string, m snapshot.Message) error {
	s.changing.RLock()
	defer s.changing.RUnlock()
	return s.Store.Post(ctx, runID, m)
}

func (s *copiedStore) Remove(ctx context.Context, runID string, ids ...string) error {
	s.changing.RLock()
	defer s.changing.RUnlock()
	return s.Store.Remove(ctx, runID, ids...)
}

func (s *copiedStore) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	s.changing.RLock()
	defer s.changing.RUnlock()
	return s.Store.Update(ctx, runID, change)
}

func (s *copiedStore) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	s.changing.RLock()
	defer s.changing.RUnlock()
	j, err := s.Store.Open(ctx, runID, o)
	if err != nil {
		return nil, err
	}
	return &copiedJournal{j, s}, nil
}

type copiedJournal struct {
	snapshot.Journal
	store *copiedStore
}

func (j *copiedJournal) Append(records ...record.Record) error {
	j.store.changing.RLock()
	defer j.store.changing.RUnlock()
	return j.Journal.Append(records...)
}

func (j *copiedJournal) Close(ctx context.Context, end snapshot.End) error {
	j.store.changing.RLock()
	defer j.store.changing.RUnlock()
	return j.Journal.Close(ctx, end)
}

// copied returns the store as another process would find it if this process were killed
// now.
func (s *copiedStore) copied(t *testing.T) *memstore.Store {
	s.changing.Lock()
	defer s.changing.Unlock()
	left := memstore.New()
	page, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	for _, info := range page.Runs {
		messages, err := s.Messages(t.Context(), info.RunID)
		require.NoError(t, err)
		run, err := s.Load(t.Context(), info.RunID)
		require.NoError(t, err)
		_, err = left.Create(t.Context(), run)
		require.NoError(t, err)
		for _, m := range messages {
			require.NoError(t, left.Post(t.Context(), info.RunID, m))
		}
	}
	return left
}
