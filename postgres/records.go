package postgres

import (
	"context"
	"errors"
	"sync"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// appends are the batches of all runs that wait to be appended. A statement takes all that
// wait, so that runs share a round trip and a commit.
type appends struct {
	writers chan struct{} // has one for each statement under way

	mu      sync.Mutex
	waiting []*appending
}

// writers is how many statements append at a time: more do not get more done.
const writers = 4

// appendMost bounds the bytes of one statement.
const appendMost = 8 << 20

// An appending is a batch that waits.
type appending struct {
	storekit.Batch
	appended bool
	err      error
	done     chan struct{}
}

// Append implements [storekit.Journals]. One of those who wait sends for all.
func (d *database) Append(ctx context.Context, b storekit.Batch) (bool, error) {
	a := &appending{Batch: b, done: make(chan struct{})}
	d.appends.mu.Lock()
	d.appends.waiting = append(d.appends.waiting, a)
	d.appends.mu.Unlock()
	for {
		select {
		case <-a.done:
			return a.appended, a.err
		case d.appends.writers <- struct{}{}:
			d.appendAll(ctx, d.appends.take())
			<-d.appends.writers
		}
	}
}

// take returns batches that wait.
func (q *appends) take() []*appending {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.waiting) && (n == 0 || size+len(q.waiting[n].Data) <= appendMost) {
		size += len(q.waiting[n].Data)
		n++
	}
	taken := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return taken
}

// appendAll appends batches, one by one if the database refuses one of them.
func (d *database) appendAll(ctx context.Context, all []*appending) {
	if len(all) == 0 {
		return
	}
	appended, err := d.appendTogether(ctx, all)
	if err != nil && len(all) > 1 && !errors.Is(err, snapshot.ErrUnavailable) {
		for i := range all {
			d.appendAll(ctx, all[i:i+1])
		}
		return
	}
	for _, a := range all {
		a.appended, a.err = appended[a.UID], err
		close(a.done)
	}
}

// appendTogether returns the UIDs of the runs to which it has appended.
func (d *database) appendTogether(ctx context.Context, all []*appending) (map[string]bool, error) {
	n := len(all)
	uids, openings := make([]string, n), make([]string, n)
	before, last, data := make([]int64, n), make([]int64, n), make([][]byte, n)
	for i, a := range all {
		uids[i], openings[i], before[i], last[i], data[i] = a.UID, a.Opening, int64(a.Prev), int64(a.Last), a.Data
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience())
	defer cancel()
	rows, err := d.pool.Query(bounded, d.in.sql(appendBatches), uids, openings, before, last, data)
	if err != nil {
		return nil, d.known(context.WithoutCancel(ctx), err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	appended := make(map[string]bool, len(found))
	for _, uid := range found {
		appended[uid] = true
	}
	return appended, d.known(context.WithoutCancel(ctx), err)
}

// appendBatches fences: the update locks the row of a run while it compares. A process that
// has lost the run waits for the one that takes it, and then finds another opening.
const appendBatches = `with b as (
		select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[]) as b (uid, opening, before, last, data)
	), own as (
		update reprise.runs r set last_seq = b.last from b
		where r.uid = b.uid and r.opening = b.opening and r.last_seq = b.before returning r.uid, b.last, b.data
	) insert into reprise.batches (uid, last, data) select uid, last, data from own returning uid`

// Records implements [storekit.Journals].
func (d *database) Records(ctx context.Context, _, uid string, after uint64) ([]storekit.Batch, error) {
	return query(ctx, d, func(row pgx.CollectableRow) (b storekit.Batch, err error) {
		var last int64
		err = row.Scan(&last, &b.Data)
		b.Last = uint64(last)
		return b, err
	}, `select last, data from reprise.batches where uid = $1 and last > $2 order by last`, uid, int64(after))
}

// changeRun begins a statement that changes the messages of a run: who has it open is to see
// that something has changed.
const changeRun = `with run as (update reprise.runs set version = version + 1, changed = pg_current_xact_id() where id = $1 returning uid)`

// Post implements [storekit.Messages].
func (d *database) Post(ctx context.Context, runID, id string, data []byte) (bool, error) {
	n, err := d.change(ctx, changeRun+` insert into reprise.inbox (uid, id, data) select uid, $2, $3 from run on conflict do nothing`, runID, id, data)
	if err != nil || n > 0 {
		return n > 0, err
	}
	heads, err := d.Find(ctx, runID)
	if err == nil && len(heads) == 0 {
		err = storekit.NotFound(runID)
	}
	return false, err
}

// Messages implements [storekit.Messages].
func (d *database) Messages(ctx context.Context, runID string) (map[string][]byte, error) {
	type message struct {
		ID   string
		Data []byte
	}
	all, err := query(ctx, d, pgx.RowToStructByPos[message], `select m.id, m.data from reprise.inbox m join reprise.runs r on r.uid = m.uid where r.id = $1`, runID)
	found := make(map[string][]byte, len(all))
	for _, m := range all {
		found[m.ID] = m.Data
	}
	return found, err
}

// Remove implements [storekit.Messages].
func (d *database) Remove(ctx context.Context, runID string, ids []string) error {
	_, err := d.change(ctx, changeRun+` delete from reprise.inbox m using run where m.uid = run.uid and m.id = any($2::text[])`, runID, ids)
	return err
}
