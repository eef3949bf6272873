// Package postgres keeps runs in a PostgreSQL database, version 14 or newer, for any number of
// processes on any number of machines: a [snapshot.Store], and a [runner.Queue] beside it.
//
//	pool, err := pgxpool.New(ctx, "postgres://app@db/app")
//	store, err := postgres.Open(ctx, pool, postgres.Options{})
//	r, err := runner.New(store, runner.Options{Queue: store.Queue()})
//
// The tables are in a schema of their own, which [Migrate] or the command reprise-postgres
// makes and brings up to date; Open never does. What is stored has the form of
// docs/format.md: runs are copied from and to directories and JetStream.
//
// # What is promised
//
// What was synced, created, updated, posted or closed is committed, with synchronous_commit
// as the database has it: on is durable on one server, and what standbys must have with
// synchronous_standby_names. A database or role with off is refused. A run has one writer:
// the statement that appends compares the token of the opening in the row of the run, which
// it locks. A process gives a sign of life by the clock of the server; when it is over
// ([Options.Lease]), others continue its runs. A process that was only slow then writes
// nothing, and continues with new runs.
//
// Each statement is a transaction of its own. One whose answer is lost is sent again, or it is
// looked up what became of it; what cannot be reached for several seconds is
// snapshot.ErrUnavailable. What several runs of a process ask for at the same time, such as to
// be stored, opened, appended to, closed or deleted, shares a statement and its commit.
//
// Lists are filtered, sorted and counted by the database. A count looks at an entry of an index
// for each run that it counts. Texts are searched with pg_trgm, an extension that comes with
// PostgreSQL and that the owner of a database may create; without it a search reads all texts.
//
// # Notifications and poolers
//
// Other processes hear of changes by NOTIFY, some milliseconds later: what stores a record
// never notifies itself, for a notification takes a lock of the whole server. They look by
// themselves every [Options.Poll] as well, so everything works without notifications, later.
// A pooler in transaction mode does not deliver them: give [Options.Listen] a connection past
// it, or set Mute. Poolers that do not know prepared statements (pgbouncer before 1.21) need
// default_query_exec_mode=cache_describe, or exec, in the URL of the pool.
//
// Statements that last long, in any database of the server, have changes reported again to
// those who watch, which they notice and drop; nothing is missed.
package postgres
