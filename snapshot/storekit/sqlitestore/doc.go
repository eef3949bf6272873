// Package sqlitestore is an example for authors of stores. It implements a [snapshot.Store] with
// SQLite and [storekit], and passes the tests of package storetest.
//
// Many processes on one machine can use the same database. Each process renews a lease. When the
// lease expires, other processes can open the runs of that process. The lease does not prevent the
// process from appending more records. Instead, each statement that appends records checks the token
// of the opening, which is stored with the run.
//
// To stay short, the example does not release the runs whose journals could not be closed because
// the database failed: others can open them only after the process has ended. A store for servers
// should look for such runs when it renews its lease: see [storekit.Store.Has].
package sqlitestore
