package sqlitestore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// headColumns are the columns of a head. The first parameter of each query is the
// current time.
const headColumns = `uid, version, opening, swaps, last, info, deleted, opening != '' AND EXISTS (SELECT 1 FROM processes p WHERE p.id = process AND p.expires > ?)`

// query returns the runs that match a WHERE clause.
func (d *database) query(ctx context.Context, where string, args ...any) (found []storekit.Change, err error) {
	rows, err := d.pool.QueryContext(ctx, `SELECT `+headColumns+` FROM runs WHERE `+where, append([]any{time.Now().UnixNano()}, args...)...)
	if err != nil {
		return nil, unavailable(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var c storekit.Change
		var last uint64
		var info []byte
		var isOpen bool
		if err := rows.Scan(&c.Head.UID, &c.Head.Version, &c.Head.Opening, &c.Head.Swaps, &last, &info, &c.Deleted, &isOpen); err != nil {
			return nil, unavailable(err)
		}
		if c.Head.Info, err = snapshot.DecodeInfo(info); err != nil {
			return nil, fmt.Errorf("sqlitestore: run %s: %w", c.Head.UID, err)
		}
		c.Head.Info.LastSeq, c.Head.Info.Open = last, isOpen
		found = append(found, c)
	}
	return found, unavailable(rows.Err())
}

// Find implements [storekit.Heads].
func (d *database) Find(ctx context.Context, runIDs ...string) ([]storekit.Head, error) {
	ids, err := json.Marshal(runIDs)
	if err != nil {
		return nil, err
	}
	found, err := d.query(ctx, `id IN (SELECT value FROM json_each(?)) AND NOT deleted`, string(ids))
	return heads(found), err
}

func heads(found []storekit.Change) []storekit.Head {
	all := make([]storekit.Head, len(found))
	for i := range found {
		all[i] = found[i].Head
	}
	return all
}

// List implements [storekit.Heads]. It leaves the filter to storekit.
func (d *database) List(ctx context.Context, _ snapshot.Filter, after storekit.Place, n int) ([]storekit.Head, error) {
	where, args := `NOT deleted`, []any{}
	if after != (storekit.Place{}) {
		at := nanoseconds(after.Updated)
		where, args = `NOT deleted AND updated <= ? AND (updated < ? OR id > ?)`, []any{at, at, after.RunID}
	}
	found, err := d.query(ctx, where+` ORDER BY updated DESC, id LIMIT ?`, append(args, n)...)
	return heads(found), err
}

// Count implements [storekit.Heads]. It leaves counting to storekit.
func (d *database) Count(context.Context, snapshot.Filter) (map[snapshot.Status]int, error) {
	return nil, nil
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

// Changes implements [storekit.Heads]. It can report all deletions, since the rows of deleted runs
// are kept.
func (d *database) Changes(ctx context.Context, runID string, since uint64) ([]storekit.Change, uint64, error) {
	var now uint64
	if err := d.pool.QueryRowContext(ctx, `SELECT at FROM clock`).Scan(&now); err != nil {
		return nil, 0, unavailable(err)
	}
	if now == since {
		return nil, now, nil
	}
	found, err := d.query(ctx, `changed > ? AND (NOT deleted OR ? > 0) AND (? = '' OR id = ?) ORDER BY changed`, since, since, runID, runID)
	return found, now, err
}

// Swap implements [storekit.Heads].
func (d *database) Swap(ctx context.Context, before, after storekit.Head, records storekit.Batch) (swapped bool, err error) {
	err = d.transact(ctx, func(tx *sql.Tx, now int64) error {
		switch {
		case after.UID == "":
			swapped, err = exactlyOne(tx.ExecContext(ctx, `UPDATE runs SET deleted = TRUE, changed = ? WHERE uid = ? AND version = ? AND NOT deleted`,
				now, before.UID, before.Version))
			if err == nil && swapped {
				_, err = tx.ExecContext(ctx, `DELETE FROM batches WHERE uid = ?`, before.UID)
			}
			if err == nil && swapped {
				_, err = tx.ExecContext(ctx, `DELETE FROM messages WHERE uid = ?`, before.UID)
			}
			return err
		case before.UID == "":
			swapped, err = d.insert(ctx, tx, now, &after, &records)
			return err
		}
		info, err := snapshot.AppendInfo(nil, &after.Info)
		if err != nil {
			return err
		}
		swapped, err = exactlyOne(tx.ExecContext(ctx, `UPDATE runs SET version = ?, opening = ?, swaps = ?, process = iif(? = opening, process, ?), updated = ?, info = ?, changed = ?, last = max(last, ?)
			WHERE uid = ? AND version = ? AND NOT deleted AND (? = 0 OR last = ?)`,
			after.Version, after.Opening, after.Swaps, after.Opening, d.process.Load(), nanoseconds(after.Info.Updated), info, now, records.Last,
			before.UID, before.Version, records.Last, records.Prev))
		if err == nil && swapped && records.Last > 0 {
			_, err = tx.ExecContext(ctx, `INSERT INTO batches VALUES (?, ?, ?)`, before.UID, records.Last, records.Data)
		}
		return err
	})
	return swapped && err == nil, err
}

func (d *database) insert(ctx context.Context, tx *sql.Tx, now int64, h *storekit.Head, records *storekit.Batch) (bool, error) {
	info, err := snapshot.AppendInfo(nil, &h.Info)
	if err != nil {
		return false, err
	}
	inserted, err := exactlyOne(tx.ExecContext(ctx, `INSERT INTO runs (uid, id, version, opening, swaps, process, last, updated, info, changed)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		h.UID, h.Info.RunID, h.Version, h.Opening, h.Swaps, d.process.Load(), records.Last, nanoseconds(h.Info.Updated), info, now))
	if err == nil && inserted && records.Last > 0 {
		_, err = tx.ExecContext(ctx, `INSERT INTO batches VALUES (?, ?, ?)`, h.UID, records.Last, records.Data)
	}
	return inserted, err
}

// Append implements [storekit.Journals].
func (d *database) Append(ctx context.Context, b storekit.Batch) (appended bool, err error) {
	err = d.transact(ctx, func(tx *sql.Tx, now int64) error {
		appended, err = exactlyOne(tx.ExecContext(ctx, `UPDATE runs SET last = ?, changed = ? WHERE uid = ? AND opening = ? AND last = ? AND NOT deleted`,
			b.Last, now, b.UID, b.Opening, b.Prev))
		if err == nil && appended {
			_, err = tx.ExecContext(ctx, `INSERT INTO batches VALUES (?, ?, ?)`, b.UID, b.Last, b.Data)
		}
		return err
	})
	return appended && err == nil, err
}

// Records implements [storekit.Journals].
func (d *database) Records(ctx context.Context, _, uid string, after uint64) (batches []storekit.Batch, err error) {
	rows, err := d.pool.QueryContext(ctx, `SELECT last, data FROM batches WHERE uid = ? AND last > ? ORDER BY last`, uid, after)
	if err != nil {
		return nil, unavailable(err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var b storekit.Batch
		if err := rows.Scan(&b.Last, &b.Data); err != nil {
			return nil, unavailable(err)
		}
		batches = append(batches, b)
	}
	return batches, unavailable(rows.Err())
}

// Post implements [storekit.Messages].
func (d *database) Post(ctx context.Context, runID, id string, data []byte) (posted bool, err error) {
	err = d.transact(ctx, func(tx *sql.Tx, now int64) error {
		var uid string
		err := tx.QueryRowContext(ctx, `UPDATE runs SET version = version + 1, changed = ? WHERE id = ? AND NOT deleted RETURNING uid`, now, runID).Scan(&uid)
		if errors.Is(err, sql.ErrNoRows) {
			return storekit.NotFoundError(runID)
		} else if err != nil {
			return err
		}
		posted, err = exactlyOne(tx.ExecContext(ctx, `INSERT INTO messages VALUES (?, ?, ?) ON CONFLICT DO NOTHING`, uid, id, data))
		return err
	})
	return posted && err == nil, err
}

// Messages implements [storekit.Messages].
func (d *database) Messages(ctx context.Context, runID string) (map[string][]byte, error) {
	rows, err := d.pool.QueryContext(ctx, `SELECT coalesce(m.id, ''), m.data FROM runs r LEFT JOIN messages m ON r.uid = m.uid WHERE r.id = ? AND NOT r.deleted`, runID)
	if err != nil {
		return nil, unavailable(err)
	}
	defer func() { _ = rows.Close() }()
	found, exists := make(map[string][]byte), false
	for rows.Next() {
		var id string
		var data []byte
		if err := rows.Scan(&id, &data); err != nil {
			return nil, unavailable(err)
		}
		if exists = true; id != "" {
			found[id] = data
		}
	}
	if err := rows.Err(); err != nil || exists {
		return found, unavailable(err)
	}
	return nil, storekit.NotFoundError(runID)
}

// Remove implements [storekit.Messages].
func (d *database) Remove(ctx context.Context, runID string, ids []string) error {
	return d.transact(ctx, func(tx *sql.Tx, now int64) error {
		var uid string
		err := tx.QueryRowContext(ctx, `UPDATE runs SET version = version + 1, changed = ? WHERE id = ? AND NOT deleted RETURNING uid`, now, runID).Scan(&uid)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // a run that does not exist has no messages
		}
		for i := 0; err == nil && i < len(ids); i++ {
			_, err = tx.ExecContext(ctx, `DELETE FROM messages WHERE uid = ? AND id = ?`, uid, ids[i])
		}
		return err
	})
}
