package postgres

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/reprise-go/reprise/internal/serverclock"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Queue is a [runner.Queue] in a [Store]'s database. It holds a job for each waiting run. If a
// process dies, its jobs become free when its lease expires. A Queue is safe for concurrent use;
// [Store.Queue] returns it.
type Queue struct {
	db   *database
	lost func() <-chan struct{}
	poll time.Duration
	now  *serverclock.Clock
	tell func() // tells other processes that the queue has changed; nil if the store is mute

	mu   sync.Mutex
	held map[int64]bool // stamps of the jobs that this process has taken or is about to take
	news chan struct{}  // closed when the queue may have changed

	used atomic.Bool // set once the queue is used; from then on, storing a queued run adds its job
}

var _ runner.Queue = (*Queue)(nil)

func newQueue(d *database, lost func() <-chan struct{}, poll time.Duration) *Queue {
	return &Queue{db: d, lost: lost, poll: poll, now: serverclock.New(d.now), held: make(map[int64]bool), news: make(chan struct{})}
}

// changed wakes the callers of Take.
func (q *Queue) changed() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.news)
	q.news = make(chan struct{})
}

// wakeTakers wakes the callers of Take in all processes.
func (q *Queue) wakeTakers() {
	q.changed()
	if q.tell != nil {
		q.tell()
	}
}

func (q *Queue) changes() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.news
}

// notWaiting is the end of a statement that does not wait for the disk. If a server crash loses the
// statement's changes, no harm is done: the runner's sweep adds missing jobs, and giveBack frees
// jobs that were not taken.
const notWaiting = ` returning 1) select set_config('synchronous_commit', 'off', true) from done`

// change executes a statement, retrying it while the database cannot be reached.
func (q *Queue) change(ctx context.Context, statement string, args ...any) (bool, error) {
	n, err := storekit.Retry(ctx, func() (int, error) { return q.db.change(ctx, statement, args...) })
	return n > 0, err
}

// hasJob reports whether storing a run also adds a job for it.
func (q *Queue) hasJob(info *snapshot.Info) bool {
	return q.used.Load() && info.Status == snapshot.StatusQueued && info.Program != ""
}

// dueOf returns when a queued run is due, in microseconds since 1970, by the server's clock; 0 means
// at once.
func dueOf(info *snapshot.Info) int64 {
	if info.Due.IsZero() {
		return 0
	}
	return microseconds(info.Due).UnixMicro()
}

// Add implements [runner.Queue].
func (q *Queue) Add(ctx context.Context, e runner.QueueEntry) (added bool, err error) {
	if err := context.Cause(ctx); err != nil {
		return false, err
	} else if e.Fresh { // the statement that stored the run also added the job
		q.wakeTakers()
		return true, nil
	}
	added, err = q.change(ctx, `with done as (insert into reprise.jobs (run, program, version, priority, due) values ($1, $2, $3, $4, $5) on conflict do nothing`+notWaiting,
		e.RunID, storableText(e.Program.Name), storableText(e.Program.Version), e.Priority, microseconds(e.Due))
	if added {
		q.wakeTakers()
	}
	return added, err
}

// microseconds rounds a time up to the precision that the database can store.
func microseconds(t time.Time) time.Time {
	return t.Add(time.Microsecond - 1).Truncate(time.Microsecond).UTC()
}

// Wake implements [runner.Queue]. It changes the job's stamp, so a process that has taken the job
// loses it.
func (q *Queue) Wake(ctx context.Context, e runner.QueueEntry) error {
	_, err := q.change(ctx, `insert into reprise.jobs (run, program, version, priority, due) values ($1, $2, $3, $4, '-infinity')
		on conflict (run) do update set program = $2, version = $3, priority = $4, due = '-infinity', process = null, stamp = 0`,
		e.RunID, storableText(e.Program.Name), storableText(e.Program.Version), e.Priority)
	if err == nil {
		q.wakeTakers()
	}
	return err
}

// Now implements [runner.Queue]. It returns the server's time.
func (q *Queue) Now(ctx context.Context) (time.Time, error) { return q.now.Now(ctx) }

// Waiting implements [runner.Queue].
func (q *Queue) Waiting(ctx context.Context, programs []runner.ProgramID) (due, parked int, err error) {
	names, versions := programColumns(programs)
	counted, err := query(ctx, q.db, pgx.RowTo[[2]int64], `select array[
			count(*) filter (where due <= now() and (program, version) in (select * from unnest($1::text[], $2::text[]))),
			count(*) filter (where due > now())]
		from reprise.jobs where process is null`, names, versions)
	if err != nil {
		return 0, 0, err
	}
	return int(counted[0][0]), int(counted[0][1]), nil
}

// programColumns returns the names and the versions of programs.
func programColumns(programs []runner.ProgramID) (names, versions []string) {
	return column(programs, func(p *runner.ProgramID) string { return storableText(p.Name) }),
		column(programs, func(p *runner.ProgramID) string { return storableText(p.Version) })
}

// Take implements [runner.Queue].
func (q *Queue) Take(ctx context.Context, programs []runner.ProgramID, n int) ([]runner.Lease, error) {
	names, versions := programColumns(programs)
	for {
		changes := q.changes()
		taken, err := q.take(ctx, names, versions, n)
		if len(taken) > 0 {
			return taken, nil
		}
		wait := q.poll
		if err == nil {
			wait, err = q.nextDue(ctx, names, versions)
		}
		if err != nil {
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-changes:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
}

// levels selects the priorities of each program's jobs. It reads the priorities one by one from the
// index, without reading jobs that are not due or that belong to other programs.
const levels = `with recursive levels (program, version, priority) as (
		select p.program, p.version, (select j.priority from reprise.jobs j where j.process is null and j.program = p.program and j.version = p.version
			order by j.priority desc limit 1)
		from unnest($1::text[], $2::text[]) p (program, version)
		union all
		select l.program, l.version, (select j.priority from reprise.jobs j where j.process is null and j.program = l.program and j.version = l.version
			and j.priority < l.priority order by j.priority desc limit 1)
		from levels l where l.priority is not null
	)`

// fromFirstJobs returns a clause that joins levels with the first jobs of each level. condition may
// restrict these jobs.
func fromFirstJobs(order, condition string) string {
	return ` from (select * from levels where priority is not null ` + order + `) l cross join lateral (
		select j.run, j.due from reprise.jobs j where j.process is null and j.program = l.program and j.version = l.version and j.priority = l.priority ` + condition + `) c`
}

var (
	takeJobs = levels + `, next as (select c.run` + fromFirstJobs(`order by priority desc`, `and j.due <= now() order by j.due limit $5 for update skip locked`) + ` limit $5
	), done as (
		update reprise.jobs j set process = $3, stamp = $4 + next.n from (select run, row_number() over () as n from next) next where j.run = next.run returning ` + jobColumns + `
	) select done.*, set_config('synchronous_commit', 'off', true) from done order by stamp`

	// The due time of a woken run is -infinity, which PostgreSQL before 17 cannot subtract from.
	nextDue = levels + ` select least(extract(epoch from min(greatest(c.due, now())) - now()), 1e6)::float8` + fromFirstJobs(``, `order by j.due limit 1`)
)

// jobColumns lists a job's columns. A woken run's due time is -infinity, which Go cannot represent.
const jobColumns = `j.run, j.program, j.version, j.priority, case when isfinite(j.due) then j.due else now() end, j.stamp`

func (q *Queue) scan(row pgx.CollectableRow) (*lease, error) {
	l := &lease{queue: q}
	var setting string
	return l, row.Scan(&l.entry.RunID, &l.entry.Program.Name, &l.entry.Program.Version, &l.entry.Priority, &l.entry.Due, &l.stamp, &setting)
}

// maxTaken is the maximum number of jobs that one statement takes.
const maxTaken = 256

// take takes up to n jobs that are due, or none while the process has no lease. If the response to
// the statement is lost, take uses the stamps to look up which jobs the statement took.
func (q *Queue) take(ctx context.Context, names, versions []string, n int) ([]runner.Lease, error) {
	lost := q.lost()
	if isClosed(lost) {
		return nil, nil
	}
	n = min(n, maxTaken)
	base, process := rand.Int64N(1<<62), q.db.process.Load()
	q.hold(base, n)
	unsure := false
	taken, err := storekit.Retry(ctx, func() (taken []*lease, err error) {
		sending := context.WithoutCancel(ctx)
		if unsure {
			taken, err = query(sending, q.db, q.scan, `select `+jobColumns+`, '' from reprise.jobs j where process = $1 and stamp between $2 + 1 and $2 + $3::int order by stamp`, process, base, n)
		}
		if err == nil && len(taken) == 0 {
			taken, err = query(sending, q.db, q.scan, takeJobs, names, versions, process, base, n)
		}
		unsure = unsure || err != nil
		return taken, err
	})
	var refused *pgconn.PgError
	isOver := errors.As(err, &refused) && refused.Code == codeNoForeignKey // the row for this process's lease is gone
	if isOver || isClosed(lost) {                                          // other processes own the jobs, or the jobs are being given back
		taken, err = nil, nil
	}
	leases := make([]runner.Lease, len(taken))
	for i, l := range taken {
		l.lost = lost
		leases[i] = l
	}
	q.releaseAfter(base, n, len(taken))
	return leases, err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// retakeDelay is how long Take waits before it tries to take the due jobs again.
const retakeDelay = 10 * time.Millisecond

// nextDue returns the time until the next job is due, provided that nothing changes.
func (q *Queue) nextDue(ctx context.Context, names, versions []string) (time.Duration, error) {
	found, err := storekit.Retry(ctx, func() ([]*float64, error) {
		return query(ctx, q.db, pgx.RowTo[*float64], nextDue, names, versions)
	})
	if err != nil || len(found) == 0 || found[0] == nil {
		return q.poll, err
	}
	wait := min(q.poll, time.Duration(*found[0]*float64(time.Second)))
	if wait <= 0 { // another worker is taking the job
		wait = retakeDelay
	}
	return wait, nil
}

// hold records that this process holds the n stamps that follow base.
func (q *Queue) hold(base int64, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range n {
		q.held[base+1+int64(i)] = true
	}
}

// releaseAfter releases the n stamps that follow base, except for the first ones, which belong to
// the jobs that were taken.
func (q *Queue) releaseAfter(base int64, n, taken int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := taken; i < n; i++ {
		delete(q.held, base+1+int64(i))
	}
}

func (q *Queue) release(stamp int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.held, stamp)
}

// giveBack frees the jobs that belong to this process according to the database but not according
// to the process itself: abandoned jobs, and jobs whose end could not be stored.
func (q *Queue) giveBack(ctx context.Context) error {
	q.mu.Lock()
	held := slices.AppendSeq([]int64{}, maps.Keys(q.held))
	q.mu.Unlock()
	n, err := q.db.change(ctx, `update reprise.jobs set process = null, stamp = 0 where process = $1 and stamp <> all($2::bigint[])`, q.db.process.Load(), held)
	if n > 0 {
		q.wakeTakers()
	}
	return err
}

// A lease is a job that this process has taken.
type lease struct {
	queue *Queue
	entry runner.QueueEntry
	stamp int64
	lost  <-chan struct{}
}

func (l *lease) Entry() runner.QueueEntry { return l.entry }

func (l *lease) Lost() <-chan struct{} { return l.lost }

// end executes the statement that ends the lease, unless the lease is already over. If another
// process has taken the job in the meantime, the statement does nothing.
func (l *lease) end(do func() (bool, error)) error {
	defer l.queue.release(l.stamp)
	if isClosed(l.lost) {
		return errExpired
	}
	_, err := do()
	return err
}

// A doneJob is a job that is finished.
type doneJob struct {
	run   string
	stamp int64
}

func (l *lease) Done(ctx context.Context) error {
	return l.end(func() (bool, error) {
		return storekit.Retry(ctx, func() (bool, error) { return l.queue.db.ends.Ask(ctx, doneJob{l.entry.RunID, l.stamp}) })
	})
}

// endAll removes jobs, except for those that other processes have taken in the meantime.
func (d *database) endAll(ctx context.Context, all []doneJob) ([]bool, error) {
	runs := column(all, func(e *doneJob) string { return e.run })
	return d.changeAll(ctx, runs, `with done as (delete from reprise.jobs j using (`+rows(`run text, stamp bigint`)+`) k where j.run = k.run and j.stamp = k.stamp`+notWaiting,
		runs, column(all, func(e *doneJob) int64 { return e.stamp }))
}

func (l *lease) Park(ctx context.Context, due time.Time) error {
	err := l.end(func() (bool, error) {
		return l.queue.change(ctx, `update reprise.jobs set process = null, stamp = 0, due = $3 where run = $1 and stamp = $2`, l.entry.RunID, l.stamp, microseconds(due))
	})
	l.queue.wakeTakers()
	return err
}

func (l *lease) Abandon() { l.queue.release(l.stamp) }
