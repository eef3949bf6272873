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

// isOpen is the SQL condition that a live process has the run open.
const isOpen = `r.opening <> '' and exists (select from reprise.processes p where p.id = r.process and p.expires > clock_timestamp())`

// headColumns lists a head's columns, in the order in which scanChange reads them.
const headColumns = `r.uid, r.version, r.opening, r.swaps, r.last_seq, r.info, ` + isOpen + `, false`

func scanChange(row pgx.CollectableRow) (c storekit.Change, err error) {
	var version, last int64
	var info []byte
	var open bool
	h := &c.Head
	if err := row.Scan(&h.UID, &version, &h.Opening, &h.Swaps, &last, &info, &open, &c.Deleted); err != nil {
		return c, err
	}
	if h.Info, err = snapshot.DecodeInfo(info); err != nil {
		return c, fmt.Errorf("run %s: %w", h.UID, err)
	}
	h.Version, h.Info.LastSeq, h.Info.Open = uint64(version), uint64(last), open
	return c, nil
}

func scanHead(row pgx.CollectableRow) (storekit.Head, error) {
	c, err := scanChange(row)
	return c.Head, err
}

// Find implements [storekit.Heads].
func (d *database) Find(ctx context.Context, runIDs ...string) ([]storekit.Head, error) {
	if len(runIDs) == 1 {
		return d.finds.Ask(ctx, runIDs[0])
	}
	return d.find(ctx, runIDs)
}

func (d *database) find(ctx context.Context, runIDs []string) ([]storekit.Head, error) {
	return query(ctx, d, scanHead, `select `+headColumns+` from reprise.runs r where r.id = any($1::text[])`, runIDs)
}

// findAll finds, with a single query, the runs that several callers requested.
func (d *database) findAll(ctx context.Context, runIDs []string) ([][]storekit.Head, error) {
	heads, err := d.find(ctx, runIDs)
	return column(runIDs, func(id *string) []storekit.Head {
		i := slices.IndexFunc(heads, func(h storekit.Head) bool { return h.Info.RunID == *id })
		if i < 0 {
			return nil
		}
		found := heads[i]
		found.Info = found.Info.Clone()
		return []storekit.Head{found}
	}), err
}

// A swap holds the arguments of Swap.
type swap struct {
	before, after storekit.Head
	records       storekit.Batch
	info          []byte // the encoded info in after
	process       int64
}

func (s *swap) size() int { return len(s.info) + len(s.records.Data) }

// Swap implements [storekit.Heads]. It does not stop when ctx ends, because the outcome would then
// be unknown. If another process might hold the lock on the run's row, the swap gets a separate
// statement, so that other swaps do not have to wait for the row, too.
func (d *database) Swap(ctx context.Context, before, after storekit.Head, records storekit.Batch) (swapped bool, err error) {
	s := swap{before: before, after: after, records: records, process: d.process.Load()}
	going := context.WithoutCancel(ctx)
	if after.UID == "" {
		return d.deletes.Ask(going, s)
	}
	if s.info, err = snapshot.AppendInfo(nil, &after.Info); err != nil {
		return false, err
	}
	switch {
	case before.UID == "":
		return d.inserts.Ask(going, s)
	case before.Opening != "" && after.Opening != "":
		one, err := d.updateAll(going, []swap{s})
		return err == nil && one[0], err
	}
	return d.updates.Ask(going, s)
}

// swapColumns are the columns of a swap, in the order that rowsOf uses. Each statement appends its
// own columns.
const swapColumns = `uid text, version bigint, opening text, swaps text, process bigint, info bytea,
	status text, program text, program_version text, pipeline text, parent text, error_class text, asking bool, tags text, created bigint, updated bigint,
	ended bigint, cost bigint, tokens bigint, retries bigint, words text, last bigint, data bytea, `

// rows returns a subquery that turns arrays, one argument for each column, into rows.
func rows(columns string) string {
	var names, arrays []string
	for column := range strings.SplitSeq(columns, ",") {
		name, kind, _ := strings.Cut(strings.TrimSpace(column), " ")
		names = append(names, name)
		arrays = append(arrays, fmt.Sprintf("$%d::%s[]", len(names), kind))
	}
	return `select * from unnest(` + strings.Join(arrays, ", ") + `) as k (` + strings.Join(names, ", ") + `)`
}

// rowsOf returns the arguments for the columns of swaps.
func rowsOf(all []swap) []any {
	texts := func(of func(i *snapshot.Info) string) []string {
		return column(all, func(s *swap) string { return storableText(of(&s.after.Info)) })
	}
	numbers := func(of func(i *snapshot.Info) int64) []int64 {
		return column(all, func(s *swap) int64 { return of(&s.after.Info) })
	}
	return []any{
		column(all, func(s *swap) string { return s.after.UID }),
		column(all, func(s *swap) int64 { return int64(s.after.Version) }),
		column(all, func(s *swap) string { return s.after.Opening }),
		column(all, func(s *swap) string { return s.after.Swaps }),
		column(all, func(s *swap) int64 { return s.process }),
		column(all, func(s *swap) []byte { return s.info }),
		texts(func(i *snapshot.Info) string { return string(i.Status) }),
		texts(func(i *snapshot.Info) string { return i.Program }),
		texts(func(i *snapshot.Info) string { return i.Version }),
		texts(func(i *snapshot.Info) string { return i.Metadata.Pipeline }),
		texts(func(i *snapshot.Info) string { return i.ParentID }),
		texts(errorClass),
		column(all, func(s *swap) bool { return s.after.Info.Summary.Asking > 0 }),
		texts(func(i *snapshot.Info) string { return array(i.Metadata.Tags) }),
		numbers(snapshot.SortCreated.Value), numbers(snapshot.SortUpdated.Value),
		numbers(snapshot.SortEnded.Value), numbers(snapshot.SortCost.Value), numbers(snapshot.SortTokens.Value), numbers(snapshot.SortRetries.Value),
		texts(searchedText),
		column(all, func(s *swap) int64 { return int64(s.records.Last) }),
		column(all, func(s *swap) []byte { return s.records.Data }),
	}
}

func errorClass(i *snapshot.Info) string {
	if i.Summary.LastError == nil {
		return ""
	}
	return i.Summary.LastError.Class
}

// array returns an array of strings in the database's syntax.
func array(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(storableText(s)) + `"`
	}
	return "{" + strings.Join(quoted, ",") + "}"
}

// separator separates a run's searched strings. No string contains it; see storableText.
const separator = "\uFFFF"

// searchedText returns a run's searched strings, in lower case.
func searchedText(i *snapshot.Info) string {
	all := []string{i.RunID, i.Metadata.Description}
	if last := i.Summary.LastError; last != nil {
		all = append(all, last.Message)
	}
	for _, q := range i.Summary.Questions {
		all = append(all, q.Text)
	}
	for n := range all {
		all[n] = strings.ReplaceAll(strings.ToLower(all[n]), separator, "\uFFFD")
	}
	return strings.Join(all, separator)
}

// storableText returns s in a form that the database can store.
func storableText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// insertAll creates runs. The same statement adds a job for each queued run.
func (d *database) insertAll(ctx context.Context, all []swap) ([]bool, error) {
	jobs := make([]bool, len(all))
	priorities, dues := make([]int64, len(all)), make([]int64, len(all))
	for i := range all {
		if info := &all[i].after.Info; d.queue.hasJob(info) {
			jobs[i], priorities[i], dues[i] = true, int64(info.Priority), dueOf(info)
		}
	}
	ids := column(all, func(s *swap) string { return s.after.Info.RunID })
	uids := column(all, func(s *swap) string { return s.after.UID })
	return d.changeAll(ctx, uids, insertRuns, append(rowsOf(all), ids, jobs, priorities, dues)...)
}

var insertRuns = `with k as (` + rows(swapColumns+`id text, queued bool, priority bigint, due bigint`) + `), own as (
		insert into reprise.runs (uid, version, opening, swaps, process, info, status, program, program_version, pipeline, parent, error_class, asking, tags, created, updated, id, last_seq)
		select k.uid, k.version, k.opening, k.swaps, k.process, k.info, k.status, k.program, k.program_version, k.pipeline, k.parent, k.error_class, k.asking, k.tags::text[],
			k.created, k.updated, k.id, k.last from k on conflict do nothing returning uid
	), mine as materialized (
		select k.* from k join own on own.uid = k.uid
	), records as (
		insert into reprise.batches (uid, last, data) select uid, last, data from mine where last > 0
	), figures as (
		insert into reprise.figures (uid, id, program, ended, cost, tokens, retries) select uid, id, program, ended, cost, tokens, retries from mine
	), words as (
		insert into reprise.words (uid, words) select uid, words from mine
	), jobs as (
		insert into reprise.jobs (run, program, version, priority, due)
		select id, program, program_version, priority, case when due = 0 then least(to_timestamp(0) + created / 1000 * interval '1 microsecond', now()) else to_timestamp(0) + due * interval '1 microsecond' end from mine where queued on conflict do nothing
	) select uid from own`

// updateAll changes runs, and appends their records.
func (d *database) updateAll(ctx context.Context, all []swap) ([]bool, error) {
	was := column(all, func(s *swap) int64 { return int64(s.before.Version) })
	prev := column(all, func(s *swap) int64 { return int64(s.records.Prev) })
	differ := column(all, func(s *swap) bool { return !sameFigures(&s.before.Info, &s.after.Info) })
	other := column(all, func(s *swap) bool { return searchedText(&s.before.Info) != searchedText(&s.after.Info) })
	swaps := column(all, func(s *swap) string { return s.after.Swaps })
	return d.changeAll(ctx, swaps, updateRuns, append(rowsOf(all), was, prev, differ, other)...)
}

// sameFigures reports whether both infos have the same program, and the same position in those
// lists that are sorted by values that rarely change before a run ends.
func sameFigures(a, b *snapshot.Info) bool {
	for _, sort := range []snapshot.Sort{snapshot.SortEnded, snapshot.SortCost, snapshot.SortTokens, snapshot.SortRetries} {
		if sort.Value(a) != sort.Value(b) {
			return false
		}
	}
	return a.Program == b.Program
}

// updateRuns returns the swaps that it made. If there are two swaps of the same run, only one of
// them is made.
var updateRuns = `with k as (` + rows(swapColumns+`was bigint, prev bigint, figures bool, searched bool`) + `), own as (
		update reprise.runs r set version = k.version, opening = k.opening, swaps = k.swaps, process = case when r.opening = k.opening then r.process else k.process end,
			info = k.info, status = k.status, program = k.program, program_version = k.program_version, pipeline = k.pipeline, parent = k.parent,
			error_class = k.error_class, asking = k.asking, tags = k.tags::text[], created = k.created, updated = k.updated,
			last_seq = greatest(r.last_seq, k.last), changed = pg_current_xact_id()
		from k where r.uid = k.uid and r.version = k.was and (k.last = 0 or r.last_seq = k.prev) returning r.swaps
	), mine as materialized (
		select k.* from k join own on own.swaps = k.swaps
	), records as (
		insert into reprise.batches (uid, last, data) select uid, last, data from mine where last > 0
	), figures as (
		update reprise.figures f set program = m.program, ended = m.ended, cost = m.cost, tokens = m.tokens, retries = m.retries from mine m where f.uid = m.uid and m.figures
	), words as (
		update reprise.words w set words = m.words from mine m where w.uid = m.uid and m.searched
	) select swaps from own`

// deleteAll deletes runs. It first locks them, in a statement of the same transaction: the statement
// that deletes does not see an effect that is committed while it waits for the lock.
func (d *database) deleteAll(ctx context.Context, all []swap) ([]bool, error) {
	uids := column(all, func(s *swap) string { return s.before.UID })
	going := context.WithoutCancel(ctx)
	bounded, cancel := context.WithTimeout(going, d.changeTimeout())
	defer cancel()
	var gone []string
	err := pgx.BeginTxFunc(bounded, d.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		if _, err := tx.Exec(bounded, d.schema.sql(lockRuns), uids); err != nil {
			return err
		}
		rows, err := tx.Query(bounded, d.schema.sql(deleteRuns), uids,
			column(all, func(s *swap) int64 { return int64(s.before.Version) }), column(all, func(s *swap) int64 { return int64(s.before.Info.LastSeq) }))
		if err != nil {
			return err
		}
		gone, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return column(uids, func(uid *string) bool { return slices.Contains(gone, *uid) }), d.storeError(going, err)
}

const lockRuns = `select from reprise.runs where uid = any($1::text[]) order by uid for update`

// deleteRuns also compares the number of the last record. Otherwise, records that the run's
// previous owner has appended in the meantime would remain.
var deleteRuns = `with k as (` + rows(`uid text, version bigint, last_seq bigint`) + `), gone as (
		delete from reprise.runs r using k where r.uid = k.uid and r.version = k.version and r.last_seq = k.last_seq returning r.uid, r.id, r.version, r.last_seq, r.info
	), batches as (
		delete from reprise.batches where uid = any(array(select uid from gone))
	), inbox as (
		delete from reprise.inbox where uid = any(array(select uid from gone))
	), effects as (
		delete from reprise.effects where uid = any(array(select uid from gone))
	), figures as (
		delete from reprise.figures where uid = any(array(select uid from gone))
	), words as (
		delete from reprise.words where uid = any(array(select uid from gone))
	) insert into reprise.deleted (uid, id, version, last_seq, info) select uid, id, version, last_seq, info from gone returning uid`

// Changes implements [storekit.Heads]. A position is a horizon: all transactions before the
// position have ended, and their changes were seen. So a change that is committed late is seen
// late, but is never missed. While an earlier transaction is still running, each call returns the
// changes since then again.
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
		changes, err = query(ctx, d, scanChange, `select `+headColumns+` from reprise.runs r where $1::text = '' or r.id = $1::text`, runID)
	case from < h.Forgotten || from > h.Next:
		return nil, 0, errkind.New(snapshot.ErrReset, "postgres: the changes since position %d are no longer known", since)
	case runID != "":
		changes, err = query(ctx, d, scanChange, `select `+headColumns+` from reprise.runs r where r.id = $1::text union all `+changesDeleted+` and d.id = $1::text`, runID, strconv.FormatUint(since, 10))
	default:
		changes, err = query(ctx, d, scanChange, `select `+headColumns+` from reprise.runs r where r.changed >= $2::text::xid8 and $1::text = '' union all
			select `+headColumns+` from reprise.runs r where r.uid in (select uid from reprise.batches where changed >= $2::text::xid8) union all `+changesDeleted, runID, strconv.FormatUint(since, 10))
	}
	return changes, uint64(h.Now), err
}

const changesDeleted = `select d.uid, d.version, '', '', d.last_seq, d.info, false, true from reprise.deleted d where d.changed >= $2::text::xid8`

// forget deletes the rows for runs that were deleted more than an hour ago. Only rows before the horizon are
// deleted: watchers that have looked for changes since then no longer need these rows.
func (d *database) forget(ctx context.Context) error {
	_, err := d.change(ctx, `with gone as (
			delete from reprise.deleted where at < clock_timestamp() - interval '1 hour' and changed < pg_snapshot_xmin(pg_current_snapshot()) returning changed
		) update reprise.forgotten set changed = greatest(changed, (select changed from gone order by changed desc limit 1)) where exists (select from gone)`)
	return err
}

// renumber replaces transaction numbers that this server has not reached yet. Such numbers exist if
// the database was restored from another server's backup.
func (d *database) renumber(ctx context.Context) error {
	for _, table := range []string{"runs", "batches", "deleted", "forgotten"} {
		_, err := d.change(ctx, `update reprise.`+table+` set changed = pg_current_xact_id() where changed > pg_snapshot_xmax(pg_current_snapshot())`)
		if err != nil {
			return err
		}
	}
	return nil
}
