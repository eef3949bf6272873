package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-go/reprise/snapshot/storekit"
)

// Append implements [storekit.Journals]. It does not stop when ctx ends, because the outcome would
// then be unknown.
func (d *database) Append(ctx context.Context, b storekit.Batch) (bool, error) {
	return d.appends.Ask(context.WithoutCancel(ctx), b)
}

// appendAll appends batches to different runs.
func (d *database) appendAll(ctx context.Context, all []storekit.Batch) ([]bool, error) {
	if len(all) == 1 {
		b := &all[0]
		n, err := d.change(ctx, appendBatch, b.UID, b.Opening, int64(b.Prev), int64(b.Last), b.Data)
		return []bool{n > 0}, err
	}
	uids := column(all, func(b *storekit.Batch) string { return b.UID })
	return d.changeAll(ctx, uids, appendBatches, uids,
		column(all, func(b *storekit.Batch) string { return b.Opening }), column(all, func(b *storekit.Batch) int64 { return int64(b.Prev) }),
		column(all, func(b *storekit.Batch) int64 { return int64(b.Last) }), column(all, func(b *storekit.Batch) []byte { return b.Data }))
}

// appendBatches rejects writes by a previous owner: the update locks the run's row while it
// compares the opening. If another process is taking the run, the process that has lost it waits
// for that process, and then the opening differs.
var appendBatches = `with b as (` + rows(`uid text, opening text, before bigint, last bigint, data bytea`) + `
	), own as (
		update reprise.runs r set last_seq = b.last from b
		where r.uid = b.uid and r.opening = b.opening and r.last_seq = b.before returning r.uid, b.last, b.data
	) insert into reprise.batches (uid, last, data) select uid, last, data from own returning uid`

// appendBatch is like appendBatches, but for a single batch. It takes only two thirds of the time.
const appendBatch = `with own as (update reprise.runs set last_seq = $4 where uid = $1 and opening = $2 and last_seq = $3 returning 1)
	insert into reprise.batches (uid, last, data) select $1, $4, $5 from own`

// A recordsQuery selects which of a run's records to read.
type recordsQuery struct {
	uid   string
	after int64
}

// Records implements [storekit.Journals].
func (d *database) Records(ctx context.Context, _, uid string, after uint64) ([]storekit.Batch, error) {
	return d.readings.Ask(ctx, recordsQuery{uid, int64(after)})
}

func (d *database) readAll(ctx context.Context, all []recordsQuery) ([][]storekit.Batch, error) {
	found := make([][]storekit.Batch, len(all))
	_, err := query(ctx, d, func(row pgx.CollectableRow) (struct{}, error) {
		var n, last int64
		var b storekit.Batch
		err := row.Scan(&n, &last, &b.Data)
		if err == nil {
			b.Last = uint64(last)
			found[n-1] = append(found[n-1], b)
		}
		return struct{}{}, err
	}, `select k.n, b.last, b.data from unnest($1::text[], $2::bigint[]) with ordinality k (uid, after, n)
		cross join lateral (select last, data from reprise.batches where uid = k.uid and last > k.after order by last) b order by k.n, b.last`,
		column(all, func(r *recordsQuery) string { return r.uid }), column(all, func(r *recordsQuery) int64 { return r.after }))
	return found, err
}

// changeRun is the beginning of a statement that changes a run's messages. It marks the run as
// changed, so that the process that has the run open notices.
const changeRun = `with run as (update reprise.runs set version = version + 1, changed = pg_current_xact_id() where id = $1 returning uid)`

// Post implements [storekit.Messages].
func (d *database) Post(ctx context.Context, runID, id string, data []byte) (bool, error) {
	n, err := d.change(ctx, changeRun+` insert into reprise.inbox (uid, id, data) select uid, $2, $3 from run on conflict do nothing`, runID, id, data)
	if err != nil || n > 0 {
		return n > 0, err
	}
	heads, err := d.Find(ctx, runID)
	if err == nil && len(heads) == 0 {
		err = storekit.NotFoundError(runID)
	}
	return false, err
}

// Messages implements [storekit.Messages].
func (d *database) Messages(ctx context.Context, runID string) (map[string][]byte, error) {
	found, err := d.inboxes.Ask(ctx, runID)
	if err == nil && found == nil {
		err = storekit.NotFoundError(runID)
	}
	return found, err
}

func (d *database) messagesOfAll(ctx context.Context, runIDs []string) ([]map[string][]byte, error) {
	type message struct {
		Run, ID string
		Data    []byte
	}
	all, err := query(ctx, d, pgx.RowToStructByPos[message], `select r.id, coalesce(m.id, ''), m.data from reprise.runs r left join reprise.inbox m on m.uid = r.uid where r.id = any($1::text[])`, runIDs)
	return column(runIDs, func(id *string) (found map[string][]byte) {
		for _, m := range all {
			if m.Run == *id && found == nil {
				found = make(map[string][]byte)
			}
			if m.Run == *id && m.ID != "" {
				found[m.ID] = m.Data
			}
		}
		return found
	}), err
}

// Remove implements [storekit.Messages].
func (d *database) Remove(ctx context.Context, runID string, ids []string) error {
	_, err := d.change(ctx, changeRun+` delete from reprise.inbox m using run where m.uid = run.uid and m.id = any($2::text[])`, runID, ids)
	return err
}
