package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// TestCancelledRunThatMustBeCompensatedSaysWhoDoesThat cancels a run that no process has open, so
// no process closes it.
func TestCancelledRunThatMustBeCompensatedSaysWhoDoesThat(t *testing.T) {
	dir := t.TempDir()
	_, stop := serveTrip(t, dir, func(context.Context) error { return nil })
	stop()

	const who = "a runner with program trip 1 compensates its calls, and then ends it"
	assert.Contains(t, call(t, dir, "fork", "a", "trip/book", "forked", "--repeat-effects").text(t),
		"resume forked` gives it to a runner with program trip 1\n")
	assert.Contains(t, call(t, dir, "fork", "a", "trip/book", "again").stderr, "or compensate them first by cancelling the run")
	assert.Equal(t, "run a will be cancelled: "+who+"\n", call(t, dir, "cancel", "a").text(t))
	shown := call(t, dir, "show", "a").text(t)
	assert.Contains(t, shown, who)
	assert.Contains(t, shown, "reprise has asked to cancel it")
	assert.NotContains(t, shown, "resume")
}

// TestShowSaysWhatACancelledRunWaitsFor: a compensation waits for an answer, for a time, or for a
// signal.
func TestShowSaysWhatACancelledRunWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		wait func(context.Context) error
		want string
	}{
		"answer": {
			func(ctx context.Context) error { _, err := core.Await[bool](ctx, "refund?"); return err },
			"a compensation awaits an answer\n",
		},
		"answer or time": {func(ctx context.Context) error {
			_, err := core.Await(ctx, "refund?", core.AwaitDefault(time.Hour, true))
			return err
		}, "a compensation awaits an answer, or continues at "},
		"time":   {func(ctx context.Context) error { return core.Sleep(ctx, time.Hour) }, "a compensation continues at "},
		"signal": {func(ctx context.Context) error { _, err := core.Receive[bool](ctx, "refunded"); return err }, "a compensation awaits a signal\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			store, stop := serveTrip(t, dir, c.wait)
			require.Zero(t, call(t, dir, "cancel", "a").code)
			awaitPaused(t, store, record.InterruptCancel)
			stop()
			shown := call(t, dir, "show", "a").text(t)
			assert.Contains(t, shown, "it ends when its calls are compensated; "+c.want)
		})
	}
}

// serveTrip starts a runner and its run a, which makes a call that undo compensates, and then asks. It
// returns the runner's store when the run is paused, and a function that stops the runner.
func serveTrip(t *testing.T, dir string, undo func(context.Context) error) (store snapshot.Store, stop func()) {
	t.Helper()
	book := decorators.Tool("book", "", func(context.Context, struct{}) (string, error) { return "seat", nil }).
		Compensate(func(ctx context.Context, _ struct{}, _ string) error { return undo(ctx) })
	r, err := runner.New(newStore(t, dir), runner.Options{})
	require.NoError(t, err)
	runner.Register(r, decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
		if _, err := book.Call(ctx, struct{}{}); err != nil {
			return "", err
		}
		return core.Await[string](ctx, "go on?")
	}), runner.WithCompensations(book))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	_, err = r.Start(ctx, "trip", "a", struct{}{}, runner.StartOptions{})
	require.NoError(t, err)
	awaitPaused(t, r.Store(), "")
	return r.Store(), func() {
		t.Helper()
		cancel()
		require.NoError(t, <-served)
	}
}

// awaitPaused waits until run a is paused with the reason for a stop.
func awaitPaused(t *testing.T, store snapshot.Store, reason record.InterruptReason) {
	t.Helper()
	for event, err := range store.Watch(t.Context(), snapshot.WatchOptions{RunID: "a"}) {
		require.NoError(t, err)
		if i := event.Info; i.Status == snapshot.StatusPaused && i.Stop.Reason == reason && !i.Open {
			return
		}
	}
}

func TestUsageErrorsAreWithoutNamesOfGoAndInJSONIfThatIsWanted(t *testing.T) {
	dir := t.TempDir()
	newStore(t, dir)
	assert.Equal(t, "reprise: invalid argument \"ten\" for \"--limit\" flag: want a whole number; see reprise runs --help\n", call(t, dir, "runs", "--limit", "ten").stderr)
	got := call(t, dir, "--json", "shwo")
	assert.Equal(t, exitUsage, got.code)
	assert.Regexp(t, `^\{"error":"unknown command .*","code":"usage"\}\n$`, got.stderr)
}
