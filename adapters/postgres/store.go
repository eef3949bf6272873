package postgres

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Store keeps runs in a database that many processes share. It is safe for concurrent use. Use
// [Open] to create one.
type Store struct {
	*storekit.Store
	db       *database
	lease    *storekit.Lease
	notifier *notifier // nil if the store is mute
	queue    *Queue
	stop     context.CancelFunc
	wait     sync.WaitGroup
	closed   sync.Once
	err      error // the error of Close
}

var _ snapshot.Store = (*Store)(nil)

// Open opens a store that uses the connections of a pool. The pool belongs to the caller. The
// schema must have been migrated; see [Migrate]. Close the store before the pool.
//
// The store uses up to 16 of the pool's connections for its runs, a few more for lists and the
// queue, and a separate connection for notifications. It also works with fewer connections, but
// more slowly.
func Open(ctx context.Context, pool *pgxpool.Pool, o Options) (*Store, error) {
	return open(ctx, pool, o, func(d *database) storekit.Backend { return d })
}

func open(ctx context.Context, pool *pgxpool.Pool, o Options, backend func(*database) storekit.Backend) (*Store, error) {
	o = o.withDefaults()
	if err := o.check(); err != nil {
		return nil, err
	}
	in, err := checkSchemaName(o.Schema)
	if err != nil {
		return nil, err
	}
	d := newDatabase(pool, in, o.Lease)
	if err := d.begin(ctx); err != nil {
		return nil, err
	}
	l := storekit.NewLease(o.Lease, d.renew, d.take)
	d.queue = newQueue(d, l.Lost, o.Poll)
	s := &Store{db: d, lease: l, queue: d.queue}
	options := storekit.Options{Poll: o.Poll, Lost: l.Lost}
	background, stop := context.WithCancel(context.Background())
	s.stop = stop
	if !o.Mute {
		s.notifier = newNotifier(d)
		options.OnChange = s.notifier.tellRun
		s.queue.tell = s.notifier.tellJobs
	}
	s.Store = storekit.New(backend(d), options)
	if !o.Mute {
		listen := o.Listen
		if listen == nil {
			listen = pool.Config().ConnConfig
		}
		s.wait.Go(func() { s.notifier.sendLoop(background) })
		s.wait.Go(func() { s.listenLoop(background, listen) })
	}
	s.wait.Go(func() { s.keep(background) })
	return s, nil
}

// Queue returns the store's queue, for [runner.Options]. The queue is closed together with the store.
// Once the queue is used, the statement that stores a queued run also adds the run's job.
func (s *Store) Queue() *Queue {
	s.queue.used.Store(true)
	return s.queue
}

// Close ends the store's background work. Other processes can then immediately open the runs that
// were left open. Calling Close again returns the same error.
func (s *Store) Close() error {
	s.closed.Do(func() {
		s.stop()
		s.lease.Close()
		s.wait.Wait()
		s.db.statements.Close()
		_, s.err = s.queue.change(context.Background(), `delete from reprise.processes where id = $1`, s.db.process.Load())
	})
	return s.err
}

// begin checks whether the database can be used, and takes this process's lease.
func (d *database) begin(ctx context.Context) error {
	if err := d.checkSchema(ctx); err != nil {
		return err
	}
	var commit, encoding string
	switch err := d.pool.QueryRow(ctx, `select current_setting('synchronous_commit'), current_setting('server_encoding')`).Scan(&commit, &encoding); {
	case err != nil:
		return d.storeError(ctx, err)
	case encoding != "UTF8":
		return fmt.Errorf("postgres: the database has the encoding %s; want UTF8", encoding)
	case commit == "off":
		return errors.New("postgres: synchronous_commit is off for this role and database, so committed data could be lost; want on, or a stricter setting for replicas")
	}
	if err := d.take(ctx); err != nil {
		return err
	}
	return d.renumber(ctx)
}

// take takes a lease with a random ID. IDs from a sequence would be reused after a backup is
// restored, while earlier processes may still be running.
func (d *database) take(ctx context.Context) error {
	process := rand.Int64()
	_, err := d.change(ctx, `insert into reprise.processes (id, expires) values ($1, clock_timestamp() + $2::interval)`, process, d.lease)
	if err == nil {
		d.process.Store(process)
	}
	return err
}

var errExpired = fmt.Errorf("%w: postgres: the process did not renew its lease in time", snapshot.ErrLease)

// renew renews the lease, unless it has already ended.
func (d *database) renew(ctx context.Context) error {
	renewed, err := query(ctx, d, pgx.RowTo[int64], `update reprise.processes set expires = clock_timestamp() + $2::interval
		where id = $1 and expires > clock_timestamp() returning id`, d.process.Load(), d.lease)
	if err == nil && len(renewed) == 0 {
		err = errExpired
	}
	return err
}

const (
	reapEvery   = 500 * time.Millisecond // the longest time from the end of a killed process's lease until its work is free
	forgetEvery = time.Minute
)

// keep repeats background work until ctx ends: it frees the jobs of dead processes, gives back jobs
// and runs that belong to this process according to the database but not to the process itself, and
// deletes old rows. After an error, it tries again.
func (s *Store) keep(ctx context.Context) {
	reap, give, forget := time.Tick(reapEvery), time.Tick(s.db.lease/2), time.Tick(forgetEvery)
	for {
		select {
		case <-reap:
			_, _ = s.reap(ctx)
		case <-give:
			_ = s.queue.giveBack(ctx)
			_ = s.giveBack(ctx)
		case <-forget:
			_ = s.db.forget(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// reap frees the jobs of processes whose leases have expired. It wakes the callers of Take in all
// processes, because this process may have none.
func (s *Store) reap(ctx context.Context) (reaped int, err error) {
	reaped, err = s.db.change(ctx, `delete from reprise.processes where expires < clock_timestamp()`)
	if reaped > 0 {
		s.NoteChanges()
		s.queue.wakeTakers()
	}
	return reaped, err
}

// giveBack lets other processes open the runs that this process has open only according to the
// database, because their end could not be stored.
func (s *Store) giveBack(ctx context.Context) error {
	type opened struct{ ID, Opening string }
	process := s.db.process.Load()
	found, err := query(ctx, s.db, pgx.RowToStructByPos[opened], `select id, opening from reprise.runs where status = 'running' and process = $1 and opening <> ''`, process)
	for _, run := range found {
		if !s.Has(run.ID, run.Opening) {
			_, givenErr := s.db.change(ctx, `update reprise.runs set process = null where id = $1 and opening = $2`, run.ID, run.Opening)
			err = errors.Join(err, givenErr)
			s.NoteChanges(run.ID)
		}
	}
	return err
}
