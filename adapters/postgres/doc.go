// Package postgres keeps runs in a PostgreSQL database, version 14 or newer, for any number of
// processes on any number of machines: a [snapshot.Store] with a [runner.Queue].
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
//	store, err := postgres.Open(ctx, pool, postgres.Options{})
//	r, err := runner.New(store, runner.Options{Queue: store.Queue()})
//
// The tables are in a separate schema, which [Migrate] or the command reprise-postgres creates and
// updates; Open never does. Runs are stored in the form of docs/format.md, so they can be copied
// from and to directories and JetStream.
//
// # What is promised
//
// Everything that was synced, created, updated, posted or closed is committed, with the
// synchronous_commit of the database: on means durable on one server, and with
// synchronous_standby_names also on standbys. A database or role with synchronous_commit off is
// refused. A run has one writer: the statement that appends compares the token of the opening in
// the row of the run, which it locks. A process holds a lease by the clock of the server; when the
// lease has expired ([Options.Lease]), others continue its runs. A process that was only slow can then no
// longer write to these runs, and continues with new ones.
//
// Each statement is a separate transaction. If its answer is lost, it is sent again, or its
// outcome is looked up; if the database cannot be reached for several seconds, the error is
// snapshot.ErrUnavailable. Changes that a process makes to several runs at the same time, such
// as storing, opening, appending, closing and deleting, share a statement and its commit.
//
// Lists are filtered, sorted and counted by the database. A count looks at an entry of an index
// for each run that it counts. Texts are searched with pg_trgm, an extension that comes with
// PostgreSQL and that the owner of a database may create; without it a search reads all texts.
//
// # Notifications and poolers
//
// Other processes learn of changes by NOTIFY, some milliseconds later. The statement that
// stores a record does not notify, since a notification takes a lock of the whole server. Other
// processes also look for changes every [Options.Poll], so everything works without
// notifications, only later. A pooler in transaction mode does not deliver them: give
// [Options.Listen] a connection past it, or set Mute. Poolers that do not support prepared
// statements (pgbouncer before 1.21) need default_query_exec_mode=cache_describe, or exec, in
// the URL of the pool.
//
// Long statements, in any database of the server, cause changes to be reported again to
// watchers, which recognize and drop them; no change is missed.
package postgres
