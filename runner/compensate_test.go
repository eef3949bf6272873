package runner_test

import (
	"context"
	"errors"
	"fmt"
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

// A run that is cancelled while it is waiting is compensated by the next runner that finds it.
func TestRunnerCompensatesARunThatWasCancelledElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, undone := memstore.New(), 0
		book := decorators.Tool("book", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
			Compensate(func(context.Context, word, string) error { undone++; return nil })
		trip := agent("trip", func(ctx context.Context, in word) (string, error) {
			if _, err := book.Call(ctx, in); err != nil {
				return "", err
			}
			return core.Await[string](ctx, "go on?")
		})
		r := newRunner(t, store, runner.Options{})
		program := runner.Register(r, trip, runner.WithCompensations(book))
		stop := serve(t, r)
		_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, stop())

		require.NoError(t, state.Cancel(t.Context(), store, "a", snapshot.Stop{By: "ops", Message: "wrong customer"}))
		info, err := store.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)
		assert.Zero(t, undone)

		var notices []string
		r = newRunner(t, store, runner.Options{
			Run:     []state.Option{state.WithCompensations(book)}, // options for all programs
			Observe: func(n runner.Notice) { notices = append(notices, fmt.Sprintf("%v, undone %d", n, undone)) },
		})
		runner.Register(r, trip)
		defer serve(t, r)()
		info, err = r.Wait(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
		assert.Equal(t, 1, undone)
		synctest.Wait()
		assert.Equal(t, []string{
			"opened run a of trip 1: running, undone 0", "closed run a of trip 1: cancelled (cancel): wrong customer, undone 1",
		}, notices)
		stats := r.Stats()
		assert.EqualValues(t, 1, stats.Opened)
		assert.EqualValues(t, 1, stats.Cancelled)
	})
}

// The runner knows the compensations of an agent's tools, at any depth.
func TestCompensationsComeWithTheirAgent(t *testing.T) {
	pay := decorators.Tool("pay", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
		Compensate(func(context.Context, word, string) error { return nil })
	model := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{}, errors.New("not asked")
	})
	shop := actors.NewAgent("shop", model, actors.WithTools(pay))
	desk := actors.NewAgent("desk", model, actors.WithTools(shop))
	require.Equal(t, pay.Compensations(), desk.Compensations())

	r := newRunner(t, memstore.New(), runner.Options{})
	runner.Register(r, desk, runner.WithCompensations(pay)) // registering the same compensation again is allowed
	other := decorators.Tool("pay", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
		Compensate(func(context.Context, word, string) error { return nil })
	require.PanicsWithError(t, `runner: program "desk": state: WithCompensations: there are two actors of kind tool_call named "pay" with different compensations; want one`, func() {
		runner.Register(r, desk, runner.WithVersion("2"), runner.WithCompensations(other))
	})
	require.PanicsWithError(t, `runner: programs "desk" and "clinic" have actors of kind tool_call named "pay" with different compensations; want one actor, or two names`, func() {
		runner.Register(r, actors.NewAgent("clinic", model, actors.WithTools(other)))
	})
	assert.Equal(t, []string{"desk"}, r.Programs())
	runner.Register(r, actors.NewAgent("desk", model, actors.WithTools(other)), runner.WithVersion("3")) // versions of one program may differ
	require.PanicsWithError(t, `runner: program "desk": state: WithCompensations: actor 1 has no compensation; add one with its method Compensate`, func() {
		runner.Register(r, desk, runner.WithVersion("2"), runner.WithCompensations(actors.NewAgent("idle", model)))
	})
}

// A paused run that is cancelled is compensated at once, not only when the store is next searched.
func TestPausedRunThatIsCancelledIsCompensatedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		undone := 0
		book := decorators.Tool("book", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
			Compensate(func(context.Context, word, string) error {
				if undone++; undone == 1 {
					return core.Permanent(errors.New("not now"))
				}
				return nil
			})
		trip := agent("trip", func(ctx context.Context, in word) (string, error) {
			if _, err := book.Call(ctx, in); err != nil {
				return "", err
			}
			return core.Await[string](ctx, "go on?")
		})
		var closed []runner.Notice
		r := newRunner(t, memstore.New(), runner.Options{SweepEvery: time.Hour, Observe: func(n runner.Notice) {
			if n.Type == runner.NoticeClosed {
				closed = append(closed, n)
			}
		}})
		program := runner.Register(r, trip, runner.WithCompensations(book))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		began := time.Now()
		require.NoError(t, r.Cancel(t.Context(), "a", snapshot.Stop{By: "ops"}))
		synctest.Wait()
		assert.Equal(t, 1, undone)
		assert.Zero(t, time.Since(began))
		require.Len(t, closed, 2)
		assert.Equal(t, snapshot.StatusPaused, closed[0].Status)
		assert.Equal(t, "cancel", string(closed[1].Stop.Reason))
	})
}

// Calls that could not be compensated are reported, whether their run failed, was cancelled while it
// was open, or was cancelled while it waited.
func TestRunnerReportsWhatWasNotCompensated(t *testing.T) {
	for name, end := range map[string]func(context.Context) error{
		"failed": func(context.Context) error { return errors.New("no room") },
		"open":   func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
		"waiting": func(ctx context.Context) error {
			_, err := core.Await[string](ctx, "go on?")
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			book := decorators.Tool("book", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
				Compensate(func(context.Context, word, string) error { return errors.New("secret") })
			trip := agent("trip", func(ctx context.Context, in word) (string, error) {
				if _, err := book.Call(ctx, in); err != nil {
					return "", err
				}
				return "", end(ctx)
			})
			store, seen := memstore.New(), new(events)
			r := newRunner(t, store, runner.Options{Observe: seen.observe})
			program := runner.Register(r, trip, runner.WithCompensations(book))
			stop := serve(t, r)
			_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
			require.NoError(t, err)
			synctest.Wait()
			if name != "failed" {
				require.NoError(t, state.Cancel(t.Context(), store, "a", snapshot.Stop{By: "ops"}), name)
			}
			_, err = r.Wait(t.Context(), "a")
			require.NoError(t, err)
			require.NoError(t, stop())
			require.Len(t, seen.of(runner.NoticeTrouble), 1, name)
			trouble := seen.of(runner.NoticeTrouble)[0]
			assert.Equal(t, "a", trouble.RunID)
			require.EqualError(t, trouble.Err, "runner: not compensated: trip/book; the effects of these calls remain", name)
			require.ErrorAs(t, trouble.Err, new(*core.CompensationError))
			_, err = state.Result[string](t.Context(), store, "a")
			require.ErrorAs(t, err, new(*core.CompensationError), name)
		})
	}
}

// registerTrip registers a program that makes a call, which undo compensates, and then calls end.
func registerTrip(r *runner.Runner, end, undo func(context.Context) error) *runner.Program[word, string] {
	book := decorators.Tool("book", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
		Compensate(func(ctx context.Context, _ word, _ string) error { return undo(ctx) })
	return runner.Register(r, agent("trip", func(ctx context.Context, in word) (string, error) {
		if _, err := book.Call(ctx, in); err != nil {
			return "", err
		}
		return "", end(ctx)
	}), runner.WithCompensations(book))
}

func askToGoOn(ctx context.Context) error {
	_, err := core.Await[string](ctx, "go on?")
	return err
}

// Whoever has cancelled a run can ask about it, and can cancel it again, while its calls are being
// compensated.
func TestRunThatIsBeingCompensatedCanBeControlled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		r := newRunner(t, memstore.New(), runner.Options{})
		program := registerTrip(r, askToGoOn, func(context.Context) error { <-gate; return nil })
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, r.Cancel(t.Context(), "a", snapshot.Stop{By: "ops"}))
		synctest.Wait()
		returned := make(chan error, 2)
		go func() { returned <- r.Cancel(t.Context(), "a", snapshot.Stop{By: "dev"}) }()
		go func() {
			stop, err := r.Stopping(t.Context(), "a")
			if err == nil {
				assert.Equal(t, &snapshot.Stop{Reason: "cancel", By: "ops"}, stop)
			}
			returned <- err
		}()
		synctest.Wait()
		assert.Len(t, returned, 2)
		close(gate)
		synctest.Wait()
		require.NoError(t, <-returned)
		require.NoError(t, <-returned)
		info, err := r.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCancelled, info.Status)
		assert.Equal(t, "ops", info.Stop.By)
		assert.EqualValues(t, 1, r.Stats().Cancelled)
	})
}

// A cancelled run is not opened while a compensation waits for an answer. Calls that could not be
// compensated are reported when the run has ended, and not at each opening.
func TestCancelledRunWaitsForTheAnswerToACompensation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pay := decorators.Tool("pay", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
			Compensate(func(context.Context, word, string) error { return core.Permanent(errors.New("no refund")) })
		book := decorators.Tool("book", "", func(_ context.Context, in word) (string, error) { return in.Text, nil }).
			Compensate(func(ctx context.Context, _ word, _ string) error {
				_, err := core.Await[string](ctx, "undone?")
				return err
			})
		trip := agent("trip", func(ctx context.Context, in word) (string, error) {
			if _, err := book.Call(ctx, in); err != nil {
				return "", err
			}
			if _, err := pay.Call(ctx, in); err != nil {
				return "", err
			}
			return core.Await[string](ctx, "go on?")
		})
		store, seen := memstore.New(), new(events)
		r := newRunner(t, store, runner.Options{Observe: seen.observe})
		program := runner.Register(r, trip, runner.WithCompensations(book, pay))
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, r.Cancel(t.Context(), "a", snapshot.Stop{By: "ops"}))
		<-time.After(time.Hour)
		synctest.Wait()
		openings := func() int { return len(seen.of(runner.NoticeOpened)) }
		assert.Equal(t, 2, openings())
		assert.Empty(t, seen.of(runner.NoticeTrouble))
		assert.EqualValues(t, 5, r.Stats().Attempts, "trip, book, pay and the two compensations")
		info, err := r.Info(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusPaused, info.Status)
		assert.Equal(t, snapshot.Stop{Reason: "cancel", By: "ops"}, info.Stop)
		stopping, err := r.Stopping(t.Context(), "a")
		require.NoError(t, err)
		assert.Equal(t, &info.Stop, stopping)
		require.NoError(t, state.Answer(t.Context(), store, "a", "trip/book@undo/book?1", "ops", "yes")) // by another process
		<-time.After(time.Minute)
		synctest.Wait()
		assert.Equal(t, 3, openings())
		troubles := seen.of(runner.NoticeTrouble)
		require.Len(t, troubles, 1)
		assert.Equal(t, snapshot.StatusCancelled, troubles[0].Status)
		assert.EqualError(t, troubles[0].Err, "runner: not compensated: trip/pay; the effects of these calls remain")
	})
}

// A cancelled run whose compensation waits is opened when the wait is over, and not before.
func TestCancelledRunContinuesWhenItsCompensationCan(t *testing.T) {
	untilCancelled := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	sleep := func(ctx context.Context) error { return core.Sleep(ctx, time.Hour) }
	failures := 0
	for name, test := range map[string]struct {
		end, undo func(context.Context) error // what the run does when it is cancelled; its compensation
		status    snapshot.Status
		openings  int
	}{
		"sleep":                 {askToGoOn, sleep, snapshot.StatusCancelled, 3},
		"sleep, cancelled open": {untilCancelled, sleep, snapshot.StatusCancelled, 2},
		"sleep before a question": {untilCancelled, func(ctx context.Context) error {
			if err := sleep(ctx); err != nil {
				return err
			}
			return askToGoOn(ctx)
		}, snapshot.StatusPaused, 2},
		"question": {func(ctx context.Context) error { _, err := core.Receive[string](ctx, "news"); return err }, askToGoOn, snapshot.StatusPaused, 2},
		"question with a default": {askToGoOn, func(ctx context.Context) error {
			_, err := core.Await(ctx, "undone?", core.AwaitDefault(time.Hour, true))
			return err
		}, snapshot.StatusCancelled, 3},
		"retry": {askToGoOn, func(context.Context) error {
			if failures++; failures < 3 {
				return core.Retryable(errors.New("not now"))
			}
			return nil
		}, snapshot.StatusCancelled, 4},
	} {
		synctest.Test(t, func(t *testing.T) {
			seen := new(events)
			hourly := state.WithRetry(core.RetryConfig{MaxAttempts: 5, Backoff: core.Constant, InitialDelay: time.Hour, MaxDelay: time.Hour, Jitter: core.NoJitter})
			r := newRunner(t, memstore.New(), runner.Options{Observe: seen.observe, ParkAfter: time.Minute, Run: []state.Option{hourly}})
			program := registerTrip(r, test.end, test.undo)
			defer serve(t, r)()
			_, err := program.Start(t.Context(), "a", word{"seat"}, runner.StartOptions{})
			require.NoError(t, err)
			synctest.Wait()
			require.NoError(t, r.Cancel(t.Context(), "a", snapshot.Stop{By: "ops"}))
			synctest.Wait()
			require.NoError(t, r.Signal(t.Context(), "a", "news", "for the cancelled call", state.SignalOptions{}), name)
			began := time.Now()
			require.NoError(t, r.Resume(t.Context(), "a"), name)
			assert.Zero(t, time.Since(began), "%s: a run that waits does not change", name)
			<-time.After(24 * time.Hour)
			synctest.Wait()
			info, err := r.Info(t.Context(), "a")
			require.NoError(t, err)
			assert.Equal(t, test.status, info.Status, name)
			assert.Equal(t, snapshot.Stop{Reason: "cancel", By: "ops"}, info.Stop, name)
			opened := len(seen.of(runner.NoticeOpened))
			assert.Equal(t, test.openings, opened, name)
			asking := 0
			if test.status == snapshot.StatusPaused {
				asking = 1
			}
			assert.Equal(t, asking, info.Summary.Asking, name)
		})
	}
}
