package runner_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A leftStore is a store on a server. If leave is set, it is called when the next change is stored,
// so the client that asked for the change has left by then.
type leftStore struct {
	snapshot.Store
	leave context.CancelFunc
}

func (s *leftStore) left() {
	if s.leave != nil {
		s.leave()
		s.leave = nil
	}
}

func (s *leftStore) Create(ctx context.Context, run *snapshot.Run) (snapshot.Info, error) {
	info, err := s.Store.Create(ctx, run)
	s.left()
	return info, err
}

func (s *leftStore) Post(ctx context.Context, runID string, m snapshot.Message) error {
	err := s.Store.Post(ctx, runID, m)
	s.left()
	return err
}

func (s *leftStore) Update(ctx context.Context, runID string, change func(*snapshot.Info) error) (snapshot.Info, error) {
	info, err := s.Store.Update(ctx, runID, change)
	s.left()
	return info, err
}

func (s *leftStore) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	if err := context.Cause(ctx); err != nil {
		return snapshot.Info{}, err
	}
	return s.Store.Info(ctx, runID)
}

// remoteQueue is a queue that needs a context that has not ended, as a queue on a server does.
type remoteQueue struct{ runner.Queue }

func (q remoteQueue) Now(ctx context.Context) (time.Time, error) {
	return time.Now(), context.Cause(ctx)
}

func (q remoteQueue) Add(ctx context.Context, e runner.QueueEntry) (bool, error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	}
	return q.Queue.Add(ctx, e)
}

func (q remoteQueue) Wake(ctx context.Context, e runner.QueueEntry) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return q.Queue.Wake(ctx, e)
}

// If a client leaves as soon as its request is stored, the run does not have to wait for the next
// search of the store.
func TestRunContinuesAtOnceAlthoughTheClientHasLeft(t *testing.T) {
	type world struct {
		*runner.Runner
		broken bool // the agent fails
		undone bool // the call was compensated
	}
	start := func(ctx context.Context, w *world) error {
		_, err := w.Start(ctx, "trip", "a", word{"seat"}, runner.StartOptions{})
		return err
	}
	for name, c := range map[string]struct {
		before func(ctx context.Context, w *world) error
		change func(ctx context.Context, w *world) error
		want   snapshot.Status
	}{
		"start": {nil, start, snapshot.StatusPaused},
		"answer": {start, func(ctx context.Context, w *world) error {
			return w.Answer(ctx, "a", "trip?1", "", "yes")
		}, snapshot.StatusCompleted},
		"signal": {start, func(ctx context.Context, w *world) error {
			return w.Signal(ctx, "a", "go", "yes", state.SignalOptions{})
		}, snapshot.StatusCompleted},
		"resume": {func(ctx context.Context, w *world) error {
			err := start(ctx, w)
			synctest.Wait()
			return errors.Join(err, w.Interrupt(ctx, "a", snapshot.Stop{}), w.Signal(ctx, "a", "go", "yes", state.SignalOptions{}))
		}, func(ctx context.Context, w *world) error { return w.Resume(ctx, "a") }, snapshot.StatusCompleted},
		"retry": {func(ctx context.Context, w *world) error {
			w.broken = true
			err := start(ctx, w)
			synctest.Wait()
			w.broken = false
			return err
		}, func(ctx context.Context, w *world) error { return w.Retry(ctx, "a") }, snapshot.StatusPaused},
		"cancel": {start, func(ctx context.Context, w *world) error { return w.Cancel(ctx, "a", snapshot.Stop{}) }, snapshot.StatusCancelled},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &leftStore{Store: memstore.New()}
				w := &world{Runner: newRunner(t, store, runner.Options{Queue: remoteQueue{runner.NewHeapQueue()}})}
				book := decorators.Tool("book", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
					Compensate(func(context.Context, word, string) error { w.undone = true; return nil })
				trip := agent("trip", func(ctx context.Context, in word) (string, error) {
					if w.broken {
						return "", core.Permanent(errors.New("no seats"))
					}
					if _, err := book.Call(ctx, in); err != nil {
						return "", err
					}
					if name == "answer" {
						return core.Await[string](ctx, "go on?")
					}
					return core.Receive[string](ctx, "go")
				}, actors.WithRetry(core.RetryConfig{MaxAttempts: 1}))
				runner.Register(w.Runner, trip, runner.WithCompensations(book))
				defer serve(t, w.Runner)()
				synctest.Wait() // wait until the first sweep is done
				if c.before != nil {
					require.NoError(t, c.before(t.Context(), w))
					synctest.Wait()
				}

				ctx, leave := context.WithCancel(t.Context())
				store.leave = leave
				began := time.Now()
				require.NoError(t, c.change(ctx, w))
				require.Error(t, ctx.Err())
				synctest.Wait()
				assert.Zero(t, time.Since(began))
				info, err := store.Info(t.Context(), "a")
				require.NoError(t, err)
				assert.Equal(t, c.want, info.Status)
				assert.Equal(t, name == "cancel", w.undone)
			})
		})
	}
}
