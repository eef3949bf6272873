package queuetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
)

// RunAhead checks that schedules follow the clock of the queue. That clock must be ahead of this
// process's clock by the given time, or behind it if the time is negative. The store and the queue
// must be empty. The schedule starts one run, whose handler is given. The handler may sleep, in
// which case the run is parked. RunAhead returns the stats of the runner.
func RunAhead(t *testing.T, store snapshot.Store, queue runner.Queue, ahead time.Duration, handler func(context.Context, struct{}) (string, error)) runner.Stats {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r, err := runner.New(store, runner.Options{Queue: queue, ParkAfter: time.Millisecond})
	must(err)
	program := runner.Register(r, decorators.Agent("scheduled", "", handler))
	here := time.Now().Add(2 * time.Second).Truncate(time.Second)
	there := here.Add(ahead).Add(2 * time.Second)
	must(program.Schedule(struct{}{}, runner.Schedule{Name: "here", At: here}))
	must(program.Schedule(struct{}{}, runner.Schedule{Name: "there", At: there}))
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	awaitCompleted(t, store, "there-"+nameOf(there))
	if info, err := r.Info(t.Context(), "here-"+nameOf(here)); !errors.Is(err, snapshot.ErrNotFound) {
		t.Errorf("a schedule follows the clock of this process: %+v, %v", info, err)
	}
	return r.Stats()
}

// nameOf returns the suffix of the ID of a run that a schedule starts at the given time.
func nameOf(at time.Time) string { return at.UTC().Format("20060102T150405Z") }

// awaitCompleted waits until a run has completed.
func awaitCompleted(t *testing.T, store snapshot.Store, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for event, err := range store.Watch(ctx, snapshot.WatchOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Info.RunID == id && event.Info.Status == snapshot.StatusCompleted {
			return
		}
	}
	t.Fatalf("run %s has not completed", id)
}
