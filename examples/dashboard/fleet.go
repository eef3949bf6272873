package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// A job is the work of a run. Its agent is called when the run starts, and again when
// it is resumed after an answer.
type job struct {
	pipeline    string
	description string
	call        func(ctx context.Context) error
}

// A fleet starts runs and resumes them.
type fleet struct {
	store      snapshot.Store
	world      *world
	dash       *streamer.Handler
	generators []generator

	count int            // number of runs started
	runs  sync.WaitGroup // open runs
	wake  chan struct{}  // signals that a run was answered

	mu       sync.Mutex
	open     int            // number of open runs
	waiting  map[string]job // runs that wait for an answer
	answered []string       // runs that have been answered but not yet resumed
	ended    []string       // oldest first
}

// A generator makes jobs of one kind.
type generator struct {
	share float64 // fraction of all runs
	asks  bool    // whether the jobs' runs may ask a question
	next  func() job
}

const (
	maxOpen    = 30  // maximum number of open runs
	maxWaiting = 3   // maximum number of waiting runs; when it is reached, no runs that may ask are started
	maxEnded   = 200 // number of ended runs to keep
)

func newFleet(store snapshot.Store, w *world) *fleet {
	f := &fleet{
		store: store, world: w, wake: make(chan struct{}, 1),
		waiting: make(map[string]job),
	}
	f.generators = []generator{
		{share: 0.40, asks: true, next: supportJobs(w)},
		{share: 0.35, next: researchJobs(w)},
		{share: 0.25, next: importJobs(w)},
	}
	return f
}

// work starts runs at the given rate per minute until ctx ends. It returns when all runs have ended.
func (f *fleet) work(ctx context.Context, rate float64) {
	defer f.runs.Wait()
	next := time.NewTicker(time.Duration(float64(time.Minute) / rate))
	defer next.Stop()
	f.begin(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			f.begin(ctx)
		case <-f.wake:
			f.resumeAnswered(ctx)
		}
	}
}

// begin starts a run, unless there are already too many.
func (f *fleet) begin(ctx context.Context) {
	f.mu.Lock()
	full, quiet := f.open >= maxOpen, len(f.waiting) < maxWaiting
	f.mu.Unlock()
	if full {
		return
	}
	luck := f.world.roll()
	for _, o := range f.generators {
		if luck -= o.share; luck < 0 && (quiet || !o.asks) {
			f.count++
			j := o.next()
			f.start(ctx, fmt.Sprintf("%s-%04d", j.pipeline, f.count), j)
			return
		}
	}
}

// resumeAnswered resumes the runs that were answered.
func (f *fleet) resumeAnswered(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.answered {
		if j, ok := f.waiting[id]; ok { // otherwise the run is still being closed, and noteClosed will see the answer
			delete(f.waiting, id)
			f.start(ctx, id, j)
		}
	}
	f.answered = nil
}

func (f *fleet) start(ctx context.Context, id string, j job) {
	f.runs.Go(func() {
		if err := f.run(ctx, id, j); err != nil {
			fmt.Fprintf(os.Stderr, "dashboard: run %s: %v\n", id, err)
		}
	})
}

// run opens a run, calls the agent, and closes the run. The result of the call is in
// the records; the returned error concerns the run itself.
func (f *fleet) run(ctx context.Context, id string, j job) error {
	st, err := state.Open(ctx, f.store, id,
		state.WithPublisher(f.dash), state.WithPayloads(),
		state.WithMetadata(snapshot.Metadata{Pipeline: j.pipeline, Description: j.description}))
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	_ = j.call(live.Watch(st.Context(ctx), f.dash.PublishDelta))
	err = st.Close()
	return errors.Join(err, f.noteClosed(ctx, id, j, st.Status()))
}

// noteClosed updates the fleet after a run was closed.
func (f *fleet) noteClosed(ctx context.Context, id string, j job, status snapshot.Status) error {
	ctx = context.WithoutCancel(ctx) // this is also needed when the program ends
	if status != snapshot.StatusPaused {
		return f.noteEnd(ctx, id)
	}
	f.mu.Lock()
	f.open--
	f.waiting[id] = j
	f.mu.Unlock()
	questions, err := state.Questions(ctx, f.store, id)
	if err == nil && len(questions) == 0 {
		f.resume(id) // the run was answered while it was being closed
	}
	return err
}

// noteEnd records that a run has ended, and deletes the oldest ended runs.
func (f *fleet) noteEnd(ctx context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	f.ended = append(f.ended, id)
	var errs []error
	for len(f.ended) > maxEnded {
		errs = append(errs, f.store.Delete(ctx, f.ended[0]))
		f.ended = slices.Delete(f.ended, 0, 1)
	}
	return errors.Join(errs...)
}

// resume schedules an answered run to be resumed.
func (f *fleet) resume(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = append(f.answered, id)
	select {
	case f.wake <- struct{}{}:
	default: // already signaled
	}
}

// log adds a line to the run's log.
func log(ctx context.Context, severity slog.Level, message string, metadata map[string]any) {
	state.From(ctx).Log(severity, message, metadata)
}
