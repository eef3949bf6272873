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

// Options configure a [Runner]. The zero value is ready to use.
type Options struct {
	// Limit is the maximum number of runs that are open at once; further runs are queued. Defaults
	// to 100.
	Limit int

	// MaxQueued is the maximum number of runs that may be waiting for a slot. Start refuses any
	// further run with ErrTooMany. Runs that wait for a given time do not count. If Queue is set,
	// the count is that of the runs in the store that have not begun, and may be a second old. 0
	// means no limit. Runs that are started by a schedule or by Call are not refused.
	MaxQueued int

	// MaxQueuedPerPrincipal is the maximum number of runs that this process has started for the
	// same StartOptions.Principal and that are waiting to begin, whether for a slot or for a given
	// time. 0 means no limit.
	MaxQueuedPerPrincipal int

	// Grace is how long runs may continue after the context of Serve has ended. Runs that are still
	// open are then interrupted, with the reason shutdown, and continue at the next start. Defaults
	// to 10 seconds; a negative Grace means none.
	Grace time.Duration

	// MaxRestarts is how many times in a row a run is started again after its process ended without
	// closing it. The count starts from zero again when the run has recorded an outcome. After
	// MaxRestarts the run is set aside: it stays interrupted with the reason crash_loop until
	// somebody resumes it. An opening whose records could not be stored counts as a crash, and the
	// run waits longer after each such opening. Runs whose last two openings were lost are
	// continued one at a time, each until it has recorded an outcome. Therefore a run that ends its
	// process does not cause other runs to be set aside. Defaults to 5.
	MaxRestarts int

	// SweepEvery is the interval between searches of the store for runs that this process does not
	// know: runs of a process that was killed, and runs that another process has started or
	// answered. Since sweeps take up at most a twentieth of the time, they are less frequent if the
	// store is large. Defaults to 5 seconds, or to a minute if Queue is set.
	SweepEvery time.Duration

	// ParkAfter is the longest core.Sleep, or delay before another attempt, during which a run is
	// kept open. If a run waits longer, it is parked: it is closed, takes up no slot and almost no
	// memory, and continues when it is due. Delays within a timeout or a deadline keep the run
	// open. Defaults to a minute. If ParkAfter is negative, no run is parked.
	ParkAfter time.Duration

	// Queue hands runs to the runners of the processes that share a store. Defaults to a queue in
	// this process, which is filled from the store.
	Queue Queue

	Retention Retention // which runs are removed from the store

	// Build identifies the code of the programs, for example by its commit. If a run was refused
	// because its program differs from its records, another build tries it again once, when that
	// build's runner begins to serve. Defaults to a hash of the executable.
	Build string

	// Run holds options for every run, such as state.WithPublisher. They must be allowed in
	// state.Open.
	Run []state.Option

	// Context returns the context for a run's root call. It must be derived from the given context,
	// for example with values for handlers, or with live.Watch. If Context is nil, the given
	// context is used.
	Context func(context.Context) context.Context

	// Metadata is called for each run that is started, with Start's context, before the run is
	// stored. It may add to the metadata, for example trace IDs that link the run to the request.
	// The tags and the Custom map are copies. If Metadata is nil, the metadata is not changed.
	Metadata func(context.Context, *snapshot.Metadata)

	// Observe, if not nil, is called with each [Notice] in the goroutine that the notice comes
	// from, so it must be fast.
	Observe func(Notice)
}

func (o Options) check() error {
	switch {
	case o.Limit < 0:
		return fmt.Errorf("runner: Limit is %d; want 1 or more, or 0 for 100", o.Limit)
	case o.MaxQueued < 0:
		return fmt.Errorf("runner: MaxQueued is %d; want 1 or more, or 0 for no limit", o.MaxQueued)
	case o.MaxQueuedPerPrincipal < 0:
		return fmt.Errorf("runner: MaxQueuedPerPrincipal is %d; want 1 or more, or 0 for no limit", o.MaxQueuedPerPrincipal)
	case o.MaxRestarts < 0:
		return fmt.Errorf("runner: MaxRestarts is %d; want 1 or more, or 0 for 5", o.MaxRestarts)
	case o.SweepEvery < 0:
		return fmt.Errorf("runner: SweepEvery is %v; want more than 0, or 0 for the default, 5s", o.SweepEvery)
	}
	if err := state.CheckOptions(o.Run...); err != nil {
		return fmt.Errorf("runner: Options.Run: %w", err)
	}
	return o.Retention.check()
}

// withDefaults returns the options with defaults in place of zero values.
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
		o.Observe = func(Notice) {}
	}
	return o
}

// A Runner runs programs by name. It is safe for concurrent use. Make one with
// [New].
type Runner struct {
	store   snapshot.Store
	options Options
	owner   string
	counts  counts
	queue   Queue
	heap    *heapQueue // the default queue; nil if Options.Queue is set
	build   func() string
	clock   func() reading // reads this machine's clock

	mu        sync.Mutex // guards the fields below; never held while user code runs
	programs  map[programKey]*program
	current   map[string]*program // the version that was registered last, by name
	open      map[string]*openRun // runs that this process has open
	closed    Stats               // counts of the calls in runs that were closed
	endings   map[string]*ending  // endings for which goroutines are waiting
	refused   map[string]refusal  // runs that cannot continue here
	suspects  suspects
	outages   map[string]outage // by run ID
	admission admission
	schedules []*scheduled // not changed once the runner is serving
	serving   bool
	swept     bool  // Serve has found the existing runs
	queued    int   // number of due entries when the queue was last counted
	parked    int   // number of entries that were not yet due
	queueErr  error // error from the last request to the queue; nil if the queue was reached
	stopping  bool  // nothing new begins
	stopped   bool  // runs were interrupted

	runs sync.WaitGroup
}

// New returns a runner for the runs in a store. It executes nothing until [Runner.Serve] is called.
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
		queue: o.Queue, open: make(map[string]*openRun), endings: make(map[string]*ending),
		refused: make(map[string]refusal), outages: make(map[string]outage), admission: newAdmission(), clock: clockSince(time.Now()),
	}
	r.build = sync.OnceValue(func() string { return cmp.Or(o.Build, executableHash()) })
	if r.queue == nil {
		r.heap = newHeapQueue()
		r.queue = r.heap
	}
	return r, nil
}

// Store returns the store in which the runner keeps its runs.
func (r *Runner) Store() snapshot.Store { return r.store }

// Info returns information about a run. If the run does not exist, the error is
// snapshot.ErrNotFound.
func (r *Runner) Info(ctx context.Context, runID string) (snapshot.Info, error) {
	info, err := r.store.Info(ctx, runID)
	if err != nil {
		return snapshot.Info{}, fmt.Errorf("runner: run %s: %w", runID, err)
	}
	return info, nil
}

// IsOpenElsewhere reports whether another process has a run open.
func (r *Runner) IsOpenElsewhere(ctx context.Context, runID string) (bool, error) {
	info, err := r.Info(ctx, runID)
	return err == nil && info.Open && info.Owner != r.owner, err
}

// List returns the runs in the store that f selects, most recently updated first.
func (r *Runner) List(ctx context.Context, f snapshot.Filter) (snapshot.Page, error) {
	page, err := r.store.List(ctx, f)
	if err != nil {
		return snapshot.Page{}, fmt.Errorf("runner: list: %w", err)
	}
	return page, nil
}
