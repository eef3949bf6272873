package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// head are the columns of a head, as scanChange reads them.
const head = `r.uid, r.version, r.opening, r.swaps, r.last_seq, r.info,
	r.opening <> '' and exists (select from reprise.processes p where p.id = r.process and p.expires > clock_timestamp()), false`

func scanChange(row pgx.CollectableRow) (c storekit.Change, err error) {
	var version, last int64
	var info []byte
	var isOpen bool
	h := &c.Head
	if err := row.Scan(&h.UID, &version, &h.Opening, &h.Swaps, &last, &info, &isOpen, &c.Deleted); err != nil {
		return c, err
	}
	if h.Info, err = snapshot.DecodeInfo(info); err != nil {
		return c, fmt.Errorf("run %s: %w", h.UID, err)
	}
	h.Version, h.Info.LastSeq, h.Info.Open = uint64(version), uint64(last), isOpen
	return c, nil
}

func scanHead(row pgx.CollectableRow) (storekit.Head, error) {
	c, err := scanChange(row)
	return c.Head, err
}

// Find implements [storekit.Heads].
func (d *database) Find(ctx context.Context, runIDs ...string) ([]storekit.Head, error) {
	return query(ctx, d, scanHead, `select `+head+` from reprise.runs r where r.id = any($1::text[])`, runIDs)
}

// Swap implements [storekit.Heads].
func (d *database) Swap(ctx context.Context, before, after storekit.Head, records storekit.Batch) (bool, error) {
	if after.UID == "" {
		n, err := d.change(ctx, deleteRun, before.UID, int64(before.Version), int64(before.Info.LastSeq))
		return n > 0, err
	}
	i := &after.Info
	info, err := snapshot.AppendInfo(nil, i)
	if err != nil {
		return false, err
	}
	args := []any{
		after.UID, int64(after.Version), after.Opening, after.Swaps, d.process.Load(), info,
		string(i.Status), text(i.Program), text(i.Metadata.Pipeline), texts(i.Metadata.Tags), i.Updated.UnixNano(),
	}
	var n int
	if before.UID == "" {
		n, err = d.change(ctx, insertRun, append(args, i.RunID, int64(records.Last), records.Data)...)
	} else {
		n, err = d.change(ctx, updateRun, append(args, int64(before.Version))...)
	}
	return n > 0, err
}

const (
	insertRun = `with run as (
		insert into reprise.runs (uid, version, opening, swaps, process, info, status, program, pipeline, tags, updated, id, last_seq)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) on conflict do nothing returning uid
	), records as (
		insert into reprise.batches (uid, last, data) select uid, $13, $14::bytea from run where $13 > 0
	) select from run`

	updateRun = `update reprise.runs set version = $2, opening = $3, swaps = $4, process = case when opening = $3 then process else $5 end,
		info = $6, status = $7, program = $8, pipeline = $9, tags = $10, updated = $11, changed = pg_current_xact_id()
		where uid = $1 and version = $12`

	// Records that were appended since, by who had the run before, are compared as well:
	// they would stay.
	deleteRun = `with gone as (
		delete from reprise.runs where uid = $1 and version = $2 and last_seq = $3 returning uid, id, version, last_seq, info
	), batches as (
		delete from reprise.batches where uid in (select uid from gone)
	), inbox as (
		delete from reprise.inbox where uid in (select uid from gone)
	), effects as (
		delete from reprise.effects where uid in (select uid from gone)
	) insert into reprise.deleted (uid, id, version, last_seq, info) select uid, id, version, last_seq, info from gone`
)

// text is a text that the database can keep.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func texts(all []string) []string {
	kept := make([]string, len(all))
	for i := range all {
		kept[i] = text(all[i])
	}
	return kept
}

// List implements [storekit.Heads]. Each status is looked up by itself: the indexes have the
// runs of one in the order of lists, those of a program and of a pipeline as well.
func (d *database) List(ctx context.Context, f snapshot.Filter, after storekit.Place, n int) ([]storekit.Head, error) {
	q := &listing{}
	where := q.where(&f, after)
	statement := `select ` + head + ` from reprise.runs r where ` + where
	limit := ` order by updated desc, id limit ` + strconv.Itoa(n)
	if len(f.Status) > 0 || f.Program != "" || f.Pipeline != "" {
		statement = `select ` + head + ` from unnest(` + q.arg(statuses(&f)) + `::text[]) s cross join lateral (
			select * from reprise.runs r where r.status = s and ` + where + limit + `) r`
	}
	return query(ctx, d, scanHead, statement+limit, q.args...)
}

// every are all statuses.
var every = []snapshot.Status{
	snapshot.StatusQueued, snapshot.StatusRunning, snapshot.StatusPaused, snapshot.StatusInterrupted,
	snapshot.StatusCompleted, snapshot.StatusFailed, snapshot.StatusCancelled,
}

// statuses are those that the filter selects, as they are stored: a run that a crash has
// left is stored as running, and counts as interrupted.
func statuses(f *snapshot.Filter) []string {
	selected := f.Status
	if len(selected) == 0 {
		selected = every
	}
	var all []string
	for _, s := range selected {
		all = append(all, string(s))
		if s == snapshot.StatusInterrupted {
			all = append(all, string(snapshot.StatusRunning))
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// A listing is the arguments of a statement that is being made.
type listing struct{ args []any }

func (q *listing) arg(value any) string {
	q.args = append(q.args, value)
	return "$" + strconv.Itoa(len(q.args))
}

// where is what the filter selects beside the status, after a place. The time of a place may
// be a nanosecond, which is why it is not a timestamp.
func (q *listing) where(f *snapshot.Filter, after storekit.Place) string {
	all := []string{"true"}
	if after != (storekit.Place{}) {
		at := q.arg(after.Updated.UnixNano())
		all = append(all, "r.updated <= "+at, "(r.updated < "+at+" or r.id > "+q.arg(after.RunID)+")")
	}
	if f.Program != "" {
		all = append(all, "r.program <> ''", "r.program = "+q.arg(text(f.Program)))
	}
	if f.Pipeline != "" {
		all = append(all, "r.pipeline <> ''", "r.pipeline = "+q.arg(text(f.Pipeline)))
	}
	if len(f.Tags) > 0 {
		all = append(all, "r.tags <> '{}'", "r.tags @> "+q.arg(texts(f.Tags))+"::text[]")
	}
	if !f.Since.IsZero() {
		all = append(all, "r.updated >= "+q.arg(f.Since.UnixNano()))
	}
	if !f.Until.IsZero() {
		all = append(all, "r.updated < "+q.arg(f.Until.UnixNano()))
	}
	return strings.Join(all, " and ")
}

// Changes implements [storekit.Heads]. A position is a horizon: all transactions before it
// had ended, and what they have changed was seen. So a change that is committed late is
// seen late, and never missed; one is seen again while a transaction before it lasts.
func (d *database) Changes(ctx context.Context, runID string, since uint64) (changes []storekit.Change, position uint64, err error) {
	type horizon struct{ Now, Next, Forgotten int64 }
	found, err := query(ctx, d, pgx.RowToStructByPos[horizon], `select pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint, changed::text::bigint
		from reprise.forgotten, pg_current_snapshot() s`)
	if err != nil || len(found) == 0 {
		return nil, 0, err
	}
	h, from := found[0], int64(since)
	switch {
	case since == 0:
		changes, err = query(ctx, d, scanChange, `select `+head+` from reprise.runs r where $1::text = '' or r.id = $1::text`, runID)
	case from < h.Forgotten || from > h.Next:
		return nil, 0, errkind.New(snapshot.ErrReset, "postgres: what has changed since %d is not known any more", since)
	case runID != "":
		changes, err = query(ctx, d, scanChange, `select `+head+` from reprise.runs r where r.id = $1::text union all `+changesDeleted+` and d.id = $1::text`, runID, strconv.FormatUint(since, 10))
	default:
		changes, err = query(ctx, d, scanChange, `select `+head+` from reprise.runs r where r.changed >= $2::text::xid8 and $1::text = '' union all
			select `+head+` from reprise.runs r where r.uid in (select uid from reprise.batches where changed >= $2::text::xid8) union all `+changesDeleted, runID, strconv.FormatUint(since, 10))
	}
	return changes, uint64(h.Now), err
}

const changesDeleted = `select d.uid, d.version, '', '', d.last_seq, d.info, false, true from reprise.deleted d where d.changed >= $2::text::xid8`

// forget forgets runs that were deleted a while ago. Nobody who watches needs them who has
// looked since; those before the horizon alone are forgotten, for all look back to it.
func (d *database) forget(ctx context.Context) error {
	_, err := d.change(ctx, `with gone as (
			delete from reprise.deleted where at < clock_timestamp() - interval '1 hour' and changed < pg_snapshot_xmin(pg_current_snapshot()) returning changed
		) update reprise.forgotten set changed = greatest(changed, (select changed from gone order by changed desc limit 1)) where exists (select from gone)`)
	return err
}

// renumber has a database that was restored into another server forget the numbers of
// transactions that come there yet.
func (d *database) renumber(ctx context.Context) error {
	for _, table := range []string{"runs", "batches", "deleted", "forgotten"} {
		_, err := d.change(ctx, `update reprise.`+table+` set changed = pg_current_xact_id() where changed > pg_snapshot_xmax(pg_current_snapshot())`)
		if err != nil {
			return err
		}
	}
	return nil
}
