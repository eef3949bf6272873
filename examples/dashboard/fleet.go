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

	"github.com/reprise-go/reprise/live"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// A job is what a run is for. Its agent is called when the run begins, and
// again when it goes on after an answer.
type job struct {
	pipeline    string
	description string
	call        func(ctx context.Context) error
}

// fleet keeps runs going.
type fleet struct {
	store   snapshot.Store
	world   *world
	dash    *streamer.Handler
	offices []office

	count int            // of runs begun
	runs  sync.WaitGroup // that are open
	wake  chan struct{}  // a run was answered

	mu       sync.Mutex
	open     int            // how many run
	waiting  map[string]job // those that wait for an answer
	answered []string       // those of them that go on
	ended    []string       // the oldest first
}

// An office makes jobs of one kind.
type office struct {
	share float64 // of all runs
	asks  bool    // its runs may ask a human
	next  func() job
}

const (
	mostOpen      = 30  // runs at a time
	mostQuestions = 3   // that wait for an answer, before no more runs that ask are begun
	mostEnded     = 200 // that are kept
)

func newFleet(store snapshot.Store, w *world) *fleet {
	f := &fleet{
		store: store, world: w, wake: make(chan struct{}, 1),
		waiting: make(map[string]job),
	}
	f.offices = []office{
		{share: 0.40, asks: true, next: supportOffice(w)},
		{share: 0.35, next: researchOffice(w)},
		{share: 0.25, next: importOffice(w)},
	}
	return f
}

// work begins rate runs a minute until ctx ends, and returns when all of them
// have ended.
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
			f.goOn(ctx)
		}
	}
}

// begin begins one run, unless there are enough.
func (f *fleet) begin(ctx context.Context) {
	f.mu.Lock()
	full, quiet := f.open >= mostOpen, len(f.waiting) < mostQuestions
	f.mu.Unlock()
	if full {
		return
	}
	luck := f.world.roll()
	for _, o := range f.offices {
		if luck -= o.share; luck < 0 && (quiet || !o.asks) {
			f.count++
			j := o.next()
			f.start(ctx, fmt.Sprintf("%s-%04d", j.pipeline, f.count), j)
			return
		}
	}
}

// goOn resumes the runs that were answered.
func (f *fleet) goOn(ctx context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.answered {
		if j, ok := f.waiting[id]; ok { // else it is still being closed, which looks for answers
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

// run opens the run, makes its call and keeps what became of it. What the call
// returns is in the records; the error is of the run itself.
func (f *fleet) run(ctx context.Context, id string, j job) error {
	st, err := state.Open(ctx, f.store, id,
		state.WithPublisher(f.dash), state.WithPayloads(),
		state.WithMetadata(state.Metadata{Pipeline: j.pipeline, Description: j.description}))
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.open++
	f.mu.Unlock()
	_ = j.call(live.Watch(st.Context(ctx), f.dash.Delta))
	err = st.Close()
	return errors.Join(err, f.closed(ctx, id, j, st.Status()))
}

// closed takes in what became of a run.
func (f *fleet) closed(ctx context.Context, id string, j job, status state.Status) error {
	ctx = context.WithoutCancel(ctx) // the end of everything is an end of runs, too
	if status != state.StatusPaused {
		return f.ends(ctx, id)
	}
	f.mu.Lock()
	f.open--
	f.waiting[id] = j
	f.mu.Unlock()
	questions, err := state.Questions(ctx, f.store, id)
	if err == nil && len(questions) == 0 {
		f.resume(id) // it was answered while it was being closed
	}
	return err
}

// ends keeps a run that is over, and deletes the oldest of them.
func (f *fleet) ends(ctx context.Context, id string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open--
	f.ended = append(f.ended, id)
	var errs []error
	for len(f.ended) > mostEnded {
		errs = append(errs, f.store.Delete(ctx, f.ended[0]))
		f.ended = slices.Delete(f.ended, 0, 1)
	}
	return errors.Join(errs...)
}

// resume lets a run go on that was answered.
func (f *fleet) resume(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answered = append(f.answered, id)
	select {
	case f.wake <- struct{}{}:
	default: // work is awake
	}
}

// log writes a line into the run.
func log(ctx context.Context, severity slog.Level, message string, metadata map[string]any) {
	state.From(ctx).Log(severity, message, metadata)
}
