package testkit

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/policy/cache"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// Workshop returns the records of a run of a random program that contains every kind of
// call and every way in which a call can end. The run is interrupted, killed at a record,
// parked, answered, retried and cancelled. Workshop must be called in a testing/synctest
// bubble.
func Workshop(t *testing.T, seed uint64) []record.Record {
	t.Helper()
	w := &workshop{seed: seed, cache: cache.New(cache.NewMemory(1<<20), cache.Options{}), world: rand.New(rand.NewPCG(seed, 2))} //nolint:gosec // a test
	var s snapshot.Store = memstore.New()
	for range 12 {
		w.open(t, s)
		time.Sleep(time.Duration(w.world.IntN(60)) * time.Second) //nolint:forbidigo // of the bubble
		if w.chance(2) {
			s = w.killed(t, s)
		}
		if !w.chance(3) {
			answerAll(t, s)
		}
		for n := range w.world.IntN(4) {
			signalled(t, s, fmt.Sprint("signal", n%2))
		}
	}
	return LoadRun(t, s, "run-1").Records
}

// killed returns a store that contains what was recorded up to the moment at which the process was
// killed.
func (w *workshop) killed(t *testing.T, s snapshot.Store) snapshot.Store {
	t.Helper()
	records := LoadRun(t, s, "run-1").Records
	records = records[:len(records)-w.world.IntN(min(len(records), 12))]
	last := records[len(records)-1]
	run, err := (&snapshot.Snapshot{
		Info:    snapshot.Info{RunID: "run-1", Status: snapshot.StatusRunning, Generation: last.Generation, LastSeq: last.Seq},
		Records: records,
	}).Run()
	require.NoError(t, err)
	again := memstore.New()
	_, err = again.Create(t.Context(), run)
	require.NoError(t, err)
	return again
}

// signalled sends a signal to the run, unless it has ended.
func signalled(t *testing.T, s snapshot.Store, name string) {
	t.Helper()
	err := state.Signal(t.Context(), s, "run-1", name, true, state.SignalOptions{})
	if !errors.Is(err, state.ErrEnded) && !errors.Is(err, state.ErrCancelled) {
		require.NoError(t, err)
	}
}

func answerAll(t *testing.T, s snapshot.Store) {
	t.Helper()
	open, err := state.Questions(t.Context(), s, "run-1")
	require.NoError(t, err)
	for _, q := range open {
		answer := any(true)
		if q.Awaits == record.AwaitDecision {
			answer = state.InDoubtRunAgain()
		}
		require.NoError(t, state.Answer(t.Context(), s, "run-1", q.ID, "", answer))
	}
}

// workshop is the program. Its seed determines which calls it makes, and its random source world
// determines how they end.
type workshop struct {
	seed  uint64
	cache *cache.Cache

	mu    sync.Mutex
	world *rand.Rand
}

// chance returns true with a probability of 1/n.
func (w *workshop) chance(n int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.world.IntN(n) == 0
}

var errWorkshop = core.Retryable(errors.New("the workshop is busy"))

// work is the handler of a tool.
func (w *workshop) work(ctx context.Context, in string) (string, error) {
	core.AddUsage(ctx, core.Usage{InputTokens: 2, OutputTokens: 1})
	switch {
	case w.chance(4):
		return "", errWorkshop
	case w.chance(8):
		return "", core.Permanent(errors.New("the workshop is closed"))
	case w.chance(12):
		panic("the roof")
	case w.chance(6): // takes longer than the timeout of its attempts
		return in, Pause(ctx, 2*time.Minute)
	}
	return in, Pause(ctx, time.Second)
}

func (w *workshop) tool(t testing.TB, kind record.Kind, name string, adapt func(*core.Spec)) *Definition {
	t.Helper()
	spec := core.Spec{Kind: kind, Name: name, AttemptTimeout: time.Minute, Retry: &core.RetryConfig{MaxAttempts: 3, InitialDelay: 10 * time.Second}}
	adapt(&spec)
	return Define(t, spec, w.work)
}

// step makes one or more calls. It returns only errors that are suspensions.
func (w *workshop) step(t testing.TB, ctx context.Context, n int, rng *rand.Rand) error {
	t.Helper()
	name := fmt.Sprint("step", n)
	var err error
	switch choice := rng.IntN(13); choice {
	case 0, 1, 2, 3:
		adapt := []func(*core.Spec){
			func(*core.Spec) {},
			func(s *core.Spec) { s.InDoubt = core.InDoubtAsk },
			func(s *core.Spec) { s.NoStore = true },
			func(s *core.Spec) { s.Interceptors = append(s.Interceptors, w.cache.Interceptor("1", time.Hour)) },
		}[choice]
		_, err = Call(ctx, w.tool(t, record.KindTool, name, adapt))
	case 4:
		_, err = Call(ctx, w.tool(t, record.KindLLM, name, func(*core.Spec) {}))
	case 5:
		err = core.Sleep(ctx, time.Duration(1+rng.IntN(100))*time.Second)
	case 6:
		_, err = core.Await[bool](ctx, name)
	case 11:
		_, err = core.Receive[bool](ctx, fmt.Sprint("signal", n%2))
	case 7:
		_, err = core.Step(ctx, name, func(ctx context.Context) (string, error) { return w.work(ctx, name) })
	case 8:
		_, err = Call(ctx, w.tool(t, record.KindTool, name, func(*core.Spec) {}).Require(func(context.Context, string) error {
			if w.chance(2) {
				return errors.New("not today")
			}
			return nil
		}))
	case 9:
		_, err = Call(ctx, w.tool(t, record.KindTool, name, func(*core.Spec) {}).Compensate(func(ctx context.Context, _, _ string) error {
			_, err := w.work(ctx, "")
			return err
		}))
	case 10:
		_, err = actors.Parallel(ctx, actors.Group{Name: name, Workers: 1 + rng.IntN(2), CollectAll: rng.IntN(2) == 0},
			func(ctx context.Context) (bool, error) { return core.Await[bool](ctx, name) },
			func(ctx context.Context) (bool, error) {
				_, err := Call(ctx, w.tool(t, record.KindTool, name, func(*core.Spec) {}))
				return false, err
			})
	default:
		_, err = Call(ctx, w.agent(t, name, rng.Uint64()))
	}
	if core.IsSuspension(err) {
		return err
	}
	return nil
}

// door returns an interceptor that delays or refuses attempts, and may refuse a retry after a
// failure.
func (w *workshop) door() core.Interceptor {
	return core.Interceptor{
		Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
			switch {
			case w.chance(4):
				if err := call.Wait(ctx, 15*time.Second, "the door"); err != nil {
					return err
				}
			case w.chance(8):
				return errWorkshop
			case w.chance(20):
				panic("the door")
			}
			return next(ctx)
		},
		Retry: func(*core.CallInfo, error) (giveBack func(), refused error) {
			if w.chance(8) {
				return nil, errors.New("the door stays closed")
			}
			return nil, nil
		},
	}
}

// agent makes a few steps. It may fail while questions inside it are open.
func (w *workshop) agent(t testing.TB, name string, seed uint64) *Definition {
	t.Helper()
	return Agent(t, name, core.RetryConfig{MaxAttempts: 2, InitialDelay: 30 * time.Second}, func(ctx context.Context, _ string) (string, error) {
		rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same program in every opening
		for n := range 2 + rng.IntN(3) {
			if err := w.step(t, ctx, n, rng); err != nil {
				return "", err
			}
		}
		if w.chance(4) {
			return "", errWorkshop
		}
		return "done", nil
	})
}

// open opens the run once, and closes it in one of several ways.
func (w *workshop) open(t *testing.T, s snapshot.Store) {
	t.Helper()
	n := -1
	if w.chance(3) {
		n = w.world.IntN(12)
	}
	var st *state.ExecutionState
	options := []state.Option{state.WithSeed(1), state.WithPublisher(Publisher(func(record.Record) {
		if n--; n == 0 && st != nil {
			st.Interrupt(snapshot.Stop{By: "ops"})
		}
	}))}
	if w.chance(3) {
		options = append(options, state.WithParking(20*time.Second))
	}
	if w.chance(4) {
		options = append(options, state.WithRerunFailed())
	}
	if w.chance(2) {
		options = append(options, state.WithInterceptors(w.door()))
	}
	st, err := state.Open(t.Context(), s, "run-1", options...)
	if errors.Is(err, state.ErrCancelled) {
		return
	}
	require.NoError(t, err)
	_, _ = Call(st.Context(t.Context()), w.agent(t, "root", w.seed))
	if w.chance(20) {
		st.Cancel(snapshot.Stop{By: "ops"})
	}
	_ = st.Close()
}
