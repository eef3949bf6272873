package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A database is the backend of a Store. Each method that changes something executes only one
// statement, so it needs no transaction and works behind a pooler.
type database struct {
	pool      *pgxpool.Pool
	schema    schemaName
	process   atomic.Int64 // this process's lease ID; replaced once the lease has expired
	lease     time.Duration
	queue     *Queue
	maxSorted int // see the constant

	statements storekit.Gate // for statements shared by several callers
	finds      storekit.Combiner[string, []storekit.Head]
	readings   storekit.Combiner[recordsQuery, []storekit.Batch]
	inboxes    storekit.Combiner[string, map[string][]byte]
	inserts    storekit.Combiner[swap, bool]
	updates    storekit.Combiner[swap, bool]
	deletes    storekit.Combiner[swap, bool]
	appends    storekit.Combiner[storekit.Batch, bool]
	ends       storekit.Combiner[doneJob, bool]
}

// The maximum numbers of statements of each kind that run at the same time. With fewer concurrent
// statements, each one handles more work, which costs the server less.
const (
	one     = 1
	some    = 2
	writers = 4
)

func newDatabase(pool *pgxpool.Pool, in schemaName, lease time.Duration) *database {
	d := &database{pool: pool, schema: in, lease: lease, maxSorted: maxSorted}
	gate := &d.statements
	d.finds = storekit.Combiner[string, []storekit.Head]{Do: d.findAll, MaxStatements: one, Gate: gate}
	d.readings = storekit.Combiner[recordsQuery, []storekit.Batch]{Do: d.readAll, MaxStatements: writers, Gate: gate}
	d.inboxes = storekit.Combiner[string, map[string][]byte]{Do: d.messagesOfAll, MaxStatements: one, Gate: gate}
	d.inserts = storekit.Combiner[swap, bool]{Do: d.insertAll, Size: (*swap).size, MaxStatements: some, Gate: gate}
	d.updates = storekit.Combiner[swap, bool]{Do: d.updateAll, Size: (*swap).size, MaxStatements: some, Gate: gate}
	d.deletes = storekit.Combiner[swap, bool]{Do: d.deleteAll, MaxStatements: one, Gate: gate}
	d.appends = storekit.Combiner[storekit.Batch, bool]{Do: d.appendAll, Size: func(b *storekit.Batch) int { return len(b.Data) }, MaxStatements: writers, Gate: gate}
	d.ends = storekit.Combiner[doneJob, bool]{Do: d.endAll, MaxStatements: one, Gate: gate}
	return d
}

// readTimeout limits how long a statement that only reads may take.
const readTimeout = time.Minute

// changeTimeout returns how long a statement that changes data may take. After that, the statement
// is sent again on another connection, which does no harm.
func (d *database) changeTimeout() time.Duration { return max(d.lease/2, 2*time.Second) }

// query executes a statement that only reads, and returns its rows.
func query[T any](ctx context.Context, d *database, scan pgx.RowToFunc[T], statement string, args ...any) ([]T, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	rows, err := d.pool.Query(bounded, d.schema.sql(statement), args...)
	if err != nil {
		return nil, d.storeError(ctx, err)
	}
	all, err := pgx.CollectRows(rows, scan)
	return all, d.storeError(ctx, err)
}

// now asks the server for its current time.
func (d *database) now(ctx context.Context) (time.Time, error) {
	told, err := query(ctx, d, pgx.RowTo[time.Time], `select clock_timestamp()`)
	if err != nil {
		return time.Time{}, err
	}
	return told[0], nil
}

// change executes a statement that changes data, and returns the number of affected rows. It does
// not stop when ctx ends, because the outcome would then be unknown.
func (d *database) change(ctx context.Context, statement string, args ...any) (rows int, err error) {
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	going := context.WithoutCancel(ctx)
	bounded, cancel := context.WithTimeout(going, d.changeTimeout())
	defer cancel()
	tag, err := d.pool.Exec(bounded, d.schema.sql(statement), args...)
	return int(tag.RowsAffected()), d.storeError(going, err)
}

// changeAll executes a statement that makes several changes. For each key, it reports whether the
// statement returned that key.
func (d *database) changeAll(ctx context.Context, keys []string, statement string, args ...any) ([]bool, error) {
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.changeTimeout())
	defer cancel()
	rows, err := d.pool.Query(bounded, d.schema.sql(statement), args...)
	if err != nil {
		return nil, d.storeError(context.WithoutCancel(ctx), err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	return column(keys, func(key *string) bool { return slices.Contains(found, *key) }), d.storeError(context.WithoutCancel(ctx), err)
}

// column returns one column of many rows as an array that can be passed to a statement as an
// argument.
func column[Row, Value any](rows []Row, of func(*Row) Value) []Value {
	all := make([]Value, len(rows))
	for i := range rows {
		all[i] = of(&rows[i])
	}
	return all
}

// Error codes from the server.
const (
	codeNoTable      = "42P01"
	codeNoForeignKey = "23503"
	codeNoPrivilege  = "42501"
	codeReadOnly     = "25006"
)

// temporaryCodes are the codes, or classes of codes, of temporary errors: lost connections, servers
// that are stopping, starting, full or busy, failovers, and transaction conflicts.
var temporaryCodes = []string{"08", "53", "57P", "57014", "58", "40001", "40P01", "25P03", "25P04", "55P03", codeReadOnly}

// isTemporary reports whether an error from pgx is temporary.
func isTemporary(err error) bool {
	var refused *pgconn.PgError
	if !errors.As(err, &refused) {
		var scan pgx.ScanArgError
		return err != nil && !errors.Is(err, pgx.ErrNoRows) && !errors.Is(err, pgx.ErrTxClosed) && !errors.As(err, &scan)
	}
	for _, code := range temporaryCodes {
		if strings.HasPrefix(refused.Code, code) {
			return true
		}
	}
	return false
}

// storeError converts an error from the database to the error that the store returns.
func (d *database) storeError(ctx context.Context, err error) error {
	var refused *pgconn.PgError
	isRefused := errors.As(err, &refused)
	switch {
	case err == nil:
		return nil
	case !isRefused && context.Cause(ctx) != nil:
		return context.Cause(ctx)
	case isRefused && refused.Code == codeReadOnly:
		return fmt.Errorf("%w: postgres: the database is read-only, for example because it is a replica: %w", snapshot.ErrUnavailable, err)
	case isRefused && refused.Code == codeNoPrivilege:
		return fmt.Errorf("postgres: the role lacks a privilege in schema %s; see Migrate: %w", d.schema, err)
	case isRefused && (refused.Code == "42P05" || refused.Code == "26000"): // a prepared statement already exists, or is missing
		return fmt.Errorf("postgres: the pooler in front of the server does not support prepared statements; add default_query_exec_mode=cache_describe to the pool's URL: %w", err)
	case isTemporary(err):
		return fmt.Errorf("%w: postgres: %w", snapshot.ErrUnavailable, err)
	}
	return fmt.Errorf("postgres: %w", err)
}
