package runner

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

// Options configure a [Runner]. The zero Options work.
type Options struct {
	// Limit is how many runs are open at once; the others are queued. Defaults
	// to 100.
	Limit int

	// Grace is how long runs may go on once the context of Serve has ended.
	// Those that are left are interrupted then, with the reason shutdown, and go
	// on at the next start. Defaults to 10 seconds; a negative one is none.
	Grace time.Duration

	// MaxRestarts is how often in a row a run is started again whose process
	// ended without closing it. A run that has recorded an outcome since is
	// counted anew. Then it is set aside: failed, with the reason crash_loop,
	// until somebody resumes it. Defaults to 5.
	MaxRestarts int

	// SweepEvery is how often the store is searched for runs to go on with that
	// this process does not know of, such as those of a process that was killed,
	// and those that another process has started or answered. It takes a
	// twentieth of the time at most: of a large store, sweeps are rarer. Defaults
	// to 5 seconds, and to a minute where Queue is set.
	SweepEvery time.Duration

	// ParkAfter is how long a core.Sleep, or the delay before another attempt,
	// may be that keeps its run open. A run with a longer one is parked: it is
	// closed, takes no slot and next to no memory, and goes on when it is due.
	// Delays within a timeout or a deadline keep the run open. Defaults to a
	// minute; a negative one parks none.
	ParkAfter time.Duration

	// Queue hands runs to the runners of several processes, which have one store.
	// Nil for a queue of this process, filled from the store.
	Queue Queue

	Retention Retention // which runs are removed from the store

	// Run are options of every run, such as state.WithPublisher. They must be
	// fit for state.Open.
	Run []state.Option

	// Observe is called with each [Event], by the goroutine that it happened
	// in: it must be fast. Nil for nothing.
	Observe func(Event)
}

func (o Options) check() error {
	switch {
	case o.Limit < 0:
		return fmt.Errorf("runner: Limit is %d; want 1 or more, or 0 for 100", o.Limit)
	case o.MaxRestarts < 0:
		return fmt.Errorf("runner: MaxRestarts is %d; want 1 or more, or 0 for 5", o.MaxRestarts)
	case o.SweepEvery < 0:
		return fmt.Errorf("runner: SweepEvery is %v; want more than 0, or 0 for 5s", o.SweepEvery)
	}
	return o.Retention.check()
}

// withDefaults returns the options without zero values.
func (o Options) withDefaults() Options {
	o.Limit = cmp.Or(o.Limit, 100)
	o.Grace = max(cmp.Or(o.Grace, 10*time.Second), 0)
	o.MaxRestarts = cmp.Or(o.MaxRestarts, 5)
	if o.Queue != nil {
		o.SweepEvery = cmp.Or(o.SweepEvery, time.Minute)
	}
	o.SweepEvery = cmp.Or(o.SweepEvery, 5*time.Second)
	o.Retention.Every = cmp.Or(o.Retention.Every, 10*time.Minute)
	o.ParkAfter = cmp.Or(o.ParkAfter, time.Minute)
	if o.Observe == nil {
		o.Observe = func(Event) {}
	}
	return o
}

// A Runner runs programs by name. It is for many goroutines; make it with [New].
type Runner struct {
	store   snapshot.Store
	options Options
	owner   string
	counts  counts
	queue   Queue
	heap    *heapQueue // the queue, where it is that of this process

	mu        sync.Mutex // guards what follows; never held while others' code runs
	programs  map[programKey]*program
	current   map[string]*program  // the version that was registered last, by name
	open      map[string]*openRun  // by this process
	ended     map[string]*ending   // that are waited for
	refused   map[string]time.Time // runs that cannot be opened, and their Updated
	schedules []*scheduled         // not changed once it serves
	serving   bool
	stopping  bool // nothing new begins
	stopped   bool // runs were interrupted

	runs sync.WaitGroup
}

// New returns a runner on a store, which runs nothing before [Runner.Serve].
func New(store snapshot.Store, o Options) (*Runner, error) {
	if store == nil {
		return nil, errors.New("runner: New needs a store, such as filestore.New(dir)")
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	r := &Runner{
		store: store, options: o.withDefaults(),
		owner:    fmt.Sprintf("runner %s/%d/%s", cmp.Or(host, "?"), os.Getpid(), strings.ToLower(rand.Text()[:6])),
		programs: make(map[programKey]*program), current: make(map[string]*program),
		queue: o.Queue, open: make(map[string]*openRun), ended: make(map[string]*ending),
		refused: make(map[string]time.Time),
	}
	if r.queue == nil {
		r.heap = newHeapQueue()
		r.queue = r.heap
	}
	return r, nil
}

// Store is what the runner keeps its runs in.
func (r *Runner) Store() snapshot.Store { return r.store }

// Info returns what is known of a run. One that does not exist is
// snapshot.ErrNotFound.
func (r *Runner) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	info, err := r.store.Info(ctx, runID)
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("runner: run %s: %w", runID, err)
	}
	return info, nil
}

// List returns the runs of the store that f picks, the last updated first.
func (r *Runner) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	page, err := r.store.List(ctx, f)
	if err != nil {
		return snapshot.Page{}, fmt.Errorf("runner: list: %w", err)
	}
	return page, nil
}
