package runner_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A lateStore is a store whose List or Create, if hold is set, returns only when late allows it.
type lateStore struct {
	snapshot.Store
	hold atomic.Bool // holds back the next List or Create
	late chan struct{}
}

func (s *lateStore) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	defer s.holdBack(ctx)
	return s.Store.List(ctx, f)
}

func (s *lateStore) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	defer s.holdBack(ctx)
	return s.Store.Create(ctx, run)
}

func (s *lateStore) holdBack(ctx context.Context) {
	if s.hold.CompareAndSwap(true, false) {
		select {
		case <-s.late:
		case <-ctx.Done():
		}
	}
}

// TestQueueingThatIsLateOpensNoWaitingRun: a run is found to be due, but before it is queued, it
// begins and then waits again.
func TestQueueingThatIsLateOpensNoWaitingRun(t *testing.T) {
	waits := map[string]func(context.Context) error{
		"parked": func(ctx context.Context) error { return core.Sleep(ctx, time.Hour) },
		"awaits an answer, with a default": func(ctx context.Context) error {
			_, err := core.Await(ctx, "who?", core.AwaitDefault(time.Hour, "nobody"))
			return err
		},
		"awaits an answer": func(ctx context.Context) error {
			_, err := core.Await[string](ctx, "who?")
			return err
		},
		"awaits a signal": func(ctx context.Context) error {
			_, err := core.Receive[string](ctx, "paid")
			return err
		},
	}
	type starter = func(t *testing.T, s *lateStore, p *runner.Program[word, string])
	start := func(t *testing.T, p *runner.Program[word, string], o runner.StartOptions) {
		_, err := p.Start(t.Context(), "a", word{}, o)
		assert.NoError(t, err)
	}
	for by, begin := range map[string]starter{
		"sweep": func(t *testing.T, s *lateStore, p *runner.Program[word, string]) {
			start(t, p, runner.StartOptions{At: time.Now().Add(6 * time.Second)})
			s.hold.Store(true)
		},
		"start": func(t *testing.T, s *lateStore, p *runner.Program[word, string]) {
			s.hold.Store(true)
			go start(t, p, runner.StartOptions{}) // the sweep also queues the run
		},
	} {
		for name, wait := range waits {
			t.Run(by+"/"+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					store := &lateStore{Store: memstore.New(), late: make(chan struct{})}
					r := newRunner(t, store, runner.Options{SweepEvery: 5 * time.Second})
					program := runner.Register(r, agent("wait", func(ctx context.Context, in word) (string, error) { return in.Text, wait(ctx) }))
					defer serve(t, r)()
					synctest.Wait() // the first sweep is done
					begin(t, store, program)
					sleep(7 * time.Second)
					before, err := r.Info(t.Context(), "a")
					require.NoError(t, err)
					require.Equal(t, snapshot.StatusPaused, before.Status)

					close(store.late)
					synctest.Wait()
					after, err := r.Info(t.Context(), "a")
					require.NoError(t, err)
					assert.Equal(t, before.Generation, after.Generation, "the run was opened while it waited")
					if !before.Due.IsZero() {
						_, err = r.Wait(t.Context(), "a")
						require.NoError(t, err)
						assert.Equal(t, before.Due, time.Now().UTC(), "it continues in time")
					}
				})
			})
		}
	}
}

// An aheadStore is a store in which all paused runs were paused while the clock was a day ahead.
type aheadStore struct{ snapshot.Store }

func (s aheadStore) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	info, err := s.Store.Info(ctx, runID)
	shift(&info)
	return info, err
}

func (s aheadStore) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	page, err := s.Store.List(ctx, f)
	for i := range page.Runs {
		shift(&page.Runs[i])
	}
	return page, err
}

func shift(info *snapshot.Info) {
	if info.Status == snapshot.StatusPaused {
		info.Updated, info.Due = info.Updated.Add(24*time.Hour), info.Due.Add(24*time.Hour)
	}
}

func TestParkedRunDoesNotWaitForAClockThatWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, aheadStore{memstore.New()}, runner.Options{})
		program := runner.Register(r, agent("nap", func(ctx context.Context, in word) (string, error) { return in.Text, core.Sleep(ctx, time.Hour) }))
		defer serve(t, r)()
		began := time.Now()
		_, err := program.Start(t.Context(), "a", word{}, runner.StartOptions{})
		require.NoError(t, err)
		_, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, time.Hour, time.Since(began))
	})
}
