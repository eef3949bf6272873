package sqlitestore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"sync/atomic"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// schema creates the tables. The column updated contains nanoseconds since 1970. The column changed
// contains the number of the transaction that last changed the run. SQLite allows only one writer at
// a time, so transactions are committed in the order of their numbers.
const schema = `
CREATE TABLE IF NOT EXISTS processes (id INTEGER PRIMARY KEY AUTOINCREMENT, expires INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS clock (id INTEGER PRIMARY KEY CHECK (id = 1), at INTEGER NOT NULL);
INSERT OR IGNORE INTO clock VALUES (1, 0);
CREATE TABLE IF NOT EXISTS runs (
	uid TEXT PRIMARY KEY, id TEXT NOT NULL, version INTEGER NOT NULL, opening TEXT NOT NULL, swaps TEXT NOT NULL, process INTEGER NOT NULL,
	last INTEGER NOT NULL, updated INTEGER NOT NULL, info BLOB NOT NULL, changed INTEGER NOT NULL, deleted BOOLEAN NOT NULL DEFAULT FALSE
) WITHOUT ROWID;
CREATE UNIQUE INDEX IF NOT EXISTS runs_id ON runs (id) WHERE NOT deleted;
CREATE INDEX IF NOT EXISTS runs_updated ON runs (updated DESC, id) WHERE NOT deleted;
CREATE INDEX IF NOT EXISTS runs_changed ON runs (changed);
CREATE TABLE IF NOT EXISTS batches (uid TEXT NOT NULL, last INTEGER NOT NULL, data BLOB NOT NULL, PRIMARY KEY (uid, last)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS messages (uid TEXT NOT NULL, id TEXT NOT NULL, data BLOB NOT NULL, PRIMARY KEY (uid, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS artifacts (ref TEXT PRIMARY KEY, data BLOB NOT NULL) WITHOUT ROWID;`

// After each renewal, a process owns its open runs for the duration lease. It looks for changes by
// other processes at the interval poll.
const (
	lease = 10 * time.Second
	poll  = 50 * time.Millisecond
)

// A Store keeps runs in an SQLite file, which many processes on one machine may use. It is safe
// for concurrent use.
type Store struct {
	*storekit.Store
	db    *database
	lease *storekit.Lease
}

var _ snapshot.Store = (*Store)(nil)

// Open opens the database in a file, and creates the file if it does not exist. The caller
// must call Close.
func Open(ctx context.Context, file string) (*Store, error) { return open(ctx, file, lease) }

func open(ctx context.Context, file string, lease time.Duration) (*Store, error) {
	pool, err := sql.Open("sqlite", "file:"+(&url.URL{Path: file}).EscapedPath()+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, fmt.Errorf("sqlitestore: %w", err)
	}
	d := &database{pool: pool, lease: lease}
	if err := d.begin(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("sqlitestore: %s: %w", file, err), pool.Close())
	}
	l := storekit.NewLease(lease, d.renew, d.take)
	return &Store{storekit.New(d, storekit.Options{Poll: poll, Lost: l.Lost}), d, l}, nil
}

// Close closes the database. Other processes can then open the runs that the store had open.
func (s *Store) Close() error {
	s.lease.Close()
	_, err := s.db.exec(context.Background(), `DELETE FROM processes WHERE id = ?`, s.db.process.Load())
	return errors.Join(err, s.db.pool.Close())
}

// A database is the backend of a Store.
type database struct {
	pool    *sql.DB
	process atomic.Int64 // ID of this process's row in the table processes; changes when a new lease is taken
	lease   time.Duration
}

// begin creates the tables and takes a lease for this process.
func (d *database) begin(ctx context.Context) error {
	if _, err := d.exec(ctx, schema); err != nil {
		return unavailable(err)
	}
	return d.take(ctx)
}

// take takes a new lease.
func (d *database) take(ctx context.Context) error {
	now := time.Now()
	result, err := d.exec(ctx, `INSERT INTO processes (expires) VALUES (?)`, now.Add(d.lease).UnixNano())
	if err != nil {
		return unavailable(err)
	}
	id, err := result.LastInsertId()
	d.process.Store(id)
	return err
}

var errExpired = fmt.Errorf("%w: sqlitestore: the process did not renew its lease in time", snapshot.ErrLease)

// renew renews the lease, unless it has expired.
func (d *database) renew(ctx context.Context) error {
	now := time.Now()
	result, err := d.exec(ctx, `UPDATE processes SET expires = ? WHERE id = ? AND expires > ?`, now.Add(d.lease).UnixNano(), d.process.Load(), now.UnixNano())
	if err != nil {
		return unavailable(err)
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errExpired, err)
	}
	return nil
}

// unavailable adds ErrUnavailable to temporary errors.
func unavailable(err error) error {
	var failed *sqlite.Error
	if errors.As(err, &failed) {
		switch failed.Code() & 0xff {
		case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
			return fmt.Errorf("%w: %w", snapshot.ErrUnavailable, err)
		}
	}
	return err
}

// exec executes a statement outside a transaction. If another process writes while the statement
// begins, SQLite does not wait, but fails with SQLITE_BUSY_SNAPSHOT; the statement has then changed
// nothing, and exec repeats it.
func (d *database) exec(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	for range maxRepeats {
		result, err = d.pool.ExecContext(ctx, query, args...)
		if failed := (*sqlite.Error)(nil); !errors.As(err, &failed) || failed.Code() != sqlite3.SQLITE_BUSY_SNAPSHOT {
			return result, err
		}
	}
	return nil, err
}

const maxRepeats = 100 // of a statement; even a second one is rare

// transact calls do in a transaction, with the transaction's number in now. If do fails, the
// transaction is rolled back.
func (d *database) transact(ctx context.Context, do func(tx *sql.Tx, now int64) error) error {
	tx, err := d.pool.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(err)
	}
	defer func() { _ = tx.Rollback() }()
	var now int64
	if err := tx.QueryRowContext(ctx, `UPDATE clock SET at = at + 1 RETURNING at`).Scan(&now); err != nil {
		return unavailable(err)
	}
	if err := do(tx, now); err != nil {
		return unavailable(err)
	}
	return unavailable(tx.Commit())
}

// exactlyOne reports whether a statement changed exactly one row.
func exactlyOne(result sql.Result, err error) (bool, error) {
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

// Put implements [snapshot.ArtifactStore].
func (s *Store) Put(ctx context.Context, data []byte) (reference string, err error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	reference = storekit.Reference(data)
	_, err = s.db.exec(ctx, `INSERT OR IGNORE INTO artifacts VALUES (?, ?)`, reference, notNil(data))
	return reference, unavailable(err)
}

// notNil returns a copy of data that is not nil, because nil would be stored as NULL.
func notNil(data []byte) []byte { return append([]byte{}, data...) }

// Get implements [snapshot.ArtifactStore].
func (s *Store) Get(ctx context.Context, reference string) (data []byte, err error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	err = s.db.pool.QueryRowContext(ctx, `SELECT data FROM artifacts WHERE ref = ?`, reference).Scan(&data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("%w: artifact %.80q", snapshot.ErrNotFound, reference)
	case err != nil:
		return nil, unavailable(err)
	case storekit.Reference(data) != reference:
		return nil, fmt.Errorf("%w: artifact %s: the stored data has another hash", snapshot.ErrCorrupt, reference)
	}
	return data, nil
}
