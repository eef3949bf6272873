// Package postgres keeps runs in a PostgreSQL database, version 14 or newer, for any number of
// processes on any number of machines. It provides a [snapshot.Store] with a [runner.Queue].
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
//	store, err := postgres.Open(ctx, pool, postgres.Options{})
//	r, err := runner.New(store, runner.Options{Queue: store.Queue()})
//
// The tables are in a separate schema. [Migrate] or the command reprise-postgres creates and
// updates it; Open never does. Runs are stored in the format that docs/format.md describes, so they
// can be copied from and to directories and JetStream.
//
// # What is promised
//
// Everything that was synced, created, updated, posted or closed is committed as durably as the
// database's setting synchronous_commit says: if it is on, data is durable on one server, and also
// on standbys if synchronous_standby_names is set. A database or role with synchronous_commit off
// is refused. A run has one writer: the statement that appends records locks the run's row and
// compares a token that changes whenever the run is opened. A process holds a lease, measured by
// the server's clock. When the lease has expired ([Options.Lease]), other processes continue its
// runs. If the process was only slow, it can then no longer write to these runs, and continues with
// new ones.
//
// Each statement is a separate transaction. If the response to a statement is lost, the statement
// is sent again, or its outcome is looked up. If the database cannot be reached for several
// seconds, the error is snapshot.ErrUnavailable. Changes that a process makes to several runs at
// the same time, such as storing, opening, appending, closing and deleting, share a statement and
// its commit.
//
// The database filters, sorts and counts lists. Counting reads an index entry for each run that it
// counts. Text searches use pg_trgm, an extension that comes with PostgreSQL and that a database's
// owner may create. Without it, a search reads all texts.
//
// # Notifications and poolers
//
// Other processes learn about changes by NOTIFY, some milliseconds later. The statement that stores
// a record does not notify, because a notification holds a lock on the whole server. Processes also
// look for changes every [Options.Poll], so everything also works without notifications, only
// later. A pooler in transaction mode does not deliver notifications: set [Options.Listen] to
// connect without the pooler, or set Mute. Poolers that do not support prepared statements
// (pgbouncer before 1.21) need default_query_exec_mode=cache_describe, or exec, in the pool's URL.
//
// While a long statement runs, in any database on the server, changes are reported to watchers
// again. Watchers recognize and drop the repeated changes; no change is missed.
package postgres
