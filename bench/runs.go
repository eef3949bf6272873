package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

const (
	runsName     = "Runs"
	runsOfCall   = 2000 // number of runs that a call starts and finishes
	workersName  = "Workers"
	runsOfWorker = 1000 // the same number in the scenario Workers
	runsAtOnce   = 64   // number of goroutines that start runs, and total number of slots
	runsPeer     = "river"
	waitTimeout  = time.Minute // timeout of waits and shutdowns
)

// A service executes the runs that are started on it.
type service struct {
	start func(i int) error // returns once the run is stored
	wait  func() error      // returns when all started runs have ended
	close func() error
}

// An opener opens a service for the given number of runs per call. The service calls
// handled once for each run.
type opener func(ctx context.Context, runs int, handled func()) (service, error)

// startService returns a contestant that starts runs and waits until they have ended.
func startService(runs int, open opener) func(context.Context, *work) instance {
	return func(ctx context.Context, w *work) instance {
		var handled atomic.Int64
		s, err := open(ctx, runs, func() { handled.Add(1) })
		if err != nil {
			return broken(err)
		}
		call := func() (int, error) {
			before := handled.Load()
			err := errors.Join(startAll(runs, s.start), s.wait())
			w.calls += int(handled.Load() - before)
			return answer, err
		}
		return instance{call: call, stop: s.close}
	}
}

// startAll starts the runs of a call, with at most runsAtOnce starts at a time.
func startAll(runs int, start func(i int) error) error {
	errs := make([]error, runsAtOnce)
	var starters sync.WaitGroup
	for s := range runsAtOnce {
		starters.Go(func() {
			for i := s; i < runs && errs[s] == nil; i += runsAtOnce {
				errs[s] = start(i)
			}
		})
	}
	starters.Wait()
	return errors.Join(errs...)
}

// A runCounter waits until the given number of runs have ended.
type runCounter struct {
	runs int
	left atomic.Int64
	done chan struct{}
}

func newRunCounter(runs int) *runCounter {
	c := &runCounter{runs: runs, done: make(chan struct{}, 1)}
	c.left.Store(int64(runs))
	return c
}

func (c *runCounter) ended() {
	if c.left.Add(-1) == 0 {
		c.done <- struct{}{}
	}
}

func (c *runCounter) wait() error {
	timeout := time.NewTimer(waitTimeout)
	defer timeout.Stop()
	select {
	case <-c.done:
		c.left.Store(int64(c.runs))
		return nil
	case <-timeout.C:
		return fmt.Errorf("%d of %d runs have not ended", c.left.Load(), c.runs)
	}
}

// oneCall returns an agent that makes no calls, so its own call is the only one in the run.
func oneCall(handled func()) runner.Actor[int, int] {
	return decorators.Agent("work", "Returns its input.", func(_ context.Context, in int) (int, error) {
		handled()
		return in, nil
	})
}

// oneStep returns an agent that calls one tool.
func oneStep(handled func()) runner.Actor[int, int] {
	tool := newTool(func(_ context.Context, in int) (int, error) {
		handled()
		return in, nil
	}, immediateRetry, 0)
	return decorators.Agent("agent", "Calls a tool.", func(ctx context.Context, in int) (int, error) {
		return tool.Event().Execute(ctx, in)
	})
}

// An agentOf makes the agent that the runs execute.
type agentOf func(handled func()) runner.Actor[int, int]

// openRunner opens a runner on a new directory.
func openRunner(agent agentOf) opener {
	return func(ctx context.Context, runs int, handled func()) (service, error) {
		dir, err := tempDir()
		if err != nil {
			return service{}, err
		}
		store, err := filestore.New(dir)
		if err != nil {
			return service{}, err
		}
		return serve(ctx, runs, agent(handled), worker{store, nil, store.Close})
	}
}

// A worker holds the store and the queue for a runner.
type worker struct {
	store snapshot.Store
	queue runner.Queue // nil to use the store's own queue
	close func() error
}

// serve starts a runner with the agent on each worker. The first runner starts the runs.
func serve(ctx context.Context, runs int, agent runner.Actor[int, int], workers ...worker) (service, error) {
	all := newRunCounter(runs)
	ctx, cancel := context.WithCancel(ctx)
	served := make(chan error, len(workers))
	var first *runner.Program[int, int]
	for _, w := range workers {
		r, err := runner.New(w.store, runner.Options{Limit: runsAtOnce / len(workers), Queue: w.queue, Observe: func(e runner.Notice) {
			if e.Type == runner.NoticeClosed && e.Status == snapshot.StatusCompleted {
				all.ended()
			}
		}})
		if err != nil {
			cancel()
			return service{}, err
		}
		if p := runner.Register(r, agent); first == nil {
			first = p
		}
		go func() { served <- r.Serve(ctx) }()
	}
	start := func(i int) error {
		_, err := first.Start(ctx, "", i, runner.StartOptions{})
		return err
	}
	stop := func() error {
		cancel()
		var errs []error
		for range workers {
			errs = append(errs, <-served)
		}
		for _, w := range workers {
			errs = append(errs, w.close())
		}
		return errors.Join(errs...)
	}
	return service{start, all.wait, stop}, nil
}

// jobArgs are the arguments of a River job.
type jobArgs struct {
	Input int `json:"input"`
}

// Kind implements [river.JobArgs].
func (jobArgs) Kind() string { return "job" }

// openRiver opens River clients, the first of which inserts the jobs. The clients fetch jobs as
// often as in River's own benchmark, instead of ten times a second, which is the default.
func openRiver(clients int) opener {
	return func(ctx context.Context, runs int, handled func()) (service, error) {
		pool, err := newDatabase(ctx)
		if err != nil {
			return service{}, err
		}
		driver := riverpgxv5.New(pool)
		migrator, err := rivermigrate.New(driver, &rivermigrate.Config{Logger: discardLogger})
		if err != nil {
			return service{}, err
		}
		if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
			return service{}, err
		}
		all := newRunCounter(runs)
		stops := []func() error{}
		var first *river.Client[pgx.Tx]
		for range clients {
			client, stop, err := startRiver(ctx, driver, runsAtOnce/clients, handled, all)
			if err != nil {
				return service{}, err
			}
			if stops = append(stops, stop); first == nil {
				first = client
			}
		}
		start := func(i int) error {
			_, err := first.Insert(ctx, jobArgs{i}, nil)
			return err
		}
		return service{start, all.wait, func() error {
			var errs []error
			for _, stop := range stops {
				errs = append(errs, stop())
			}
			pool.Close()
			return errors.Join(errs...)
		}}, nil
	}
}

// startRiver starts a client that counts the jobs that it has completed.
func startRiver(ctx context.Context, driver *riverpgxv5.Driver, slots int, handled func(), all *runCounter) (*river.Client[pgx.Tx], func() error, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[jobArgs]) error {
		handled()
		return nil
	}))
	client, err := river.NewClient(driver, &river.Config{
		Queues:        map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
		Workers:       workers,
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Logger: discardLogger,
	})
	if err != nil {
		return nil, nil, err
	}
	events, unsubscribe := client.SubscribeConfig(&river.SubscribeConfig{Kinds: []river.EventKind{river.EventKindJobCompleted}, ChanSize: all.runs})
	var counting sync.WaitGroup
	counting.Go(func() {
		for range events {
			all.ended()
		}
	})
	stop := func() error {
		err := client.Stop(context.WithoutCancel(ctx))
		unsubscribe()
		counting.Wait()
		return err
	}
	err = client.Start(ctx)
	return client, stop, err
}

var discardLogger = slog.New(slog.DiscardHandler)

// openDBOS runs workflows with one step. They are not queued, so each start waits for the workflow
// to end.
func openDBOS(ctx context.Context, _ int, handled func()) (service, error) {
	workflow := func(c dbos.Context, in int) (int, error) {
		return dbos.RunAsStep(c, func(context.Context) (int, error) {
			handled()
			return in, nil
		})
	}
	c, stop, err := newDBOS(ctx, func(c dbos.Context) { dbos.RegisterWorkflow(c, workflow, dbos.WithWorkflowName("work")) })
	if err != nil {
		return service{}, err
	}
	start := func(i int) error {
		handle, err := dbos.RunWorkflow(c, workflow, i)
		if err != nil {
			return err
		}
		_, err = handle.GetResult()
		return err
	}
	return service{start, func() error { return nil }, stop}, nil
}

// newDBOS launches DBOS with the registered workflows.
func newDBOS(ctx context.Context, register func(dbos.Context)) (dbos.Context, func() error, error) {
	pool, err := newDatabase(ctx)
	if err != nil {
		return nil, nil, err
	}
	c, err := dbos.NewContext(ctx, dbos.Config{AppName: "bench", SystemDBPool: pool, Logger: discardLogger})
	if err != nil {
		return nil, nil, err
	}
	register(c)
	if err := dbos.Launch(c); err != nil {
		return nil, nil, err
	}
	return c, func() error {
		err := dbos.Shutdown(c, waitTimeout)
		pool.Close()
		return err
	}, nil
}

// startDBOSSteps makes the steps of one workflow, one at a time.
func startDBOSSteps(ctx context.Context, w *work) instance {
	requests, outputs := make(chan struct{}), make(chan error)
	workflow := func(c dbos.Context, _ int) (int, error) {
		for range requests {
			_, err := dbos.RunAsStep(c, func(context.Context) (string, error) {
				w.calls++
				return text, nil
			})
			outputs <- err
		}
		return answer, nil
	}
	c, stop, err := newDBOS(ctx, func(c dbos.Context) { dbos.RegisterWorkflow(c, workflow, dbos.WithWorkflowName("steps")) })
	if err != nil {
		return broken(err)
	}
	handle, err := dbos.RunWorkflow(c, workflow, 0)
	if err != nil {
		return broken(errors.Join(err, stop()))
	}
	call := func() (int, error) {
		requests <- struct{}{}
		return answer, <-outputs
	}
	return instance{call: call, stop: func() error {
		close(requests)
		_, err := handle.GetResult()
		return errors.Join(err, stop())
	}}
}
