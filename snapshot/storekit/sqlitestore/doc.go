// Package sqlitestore is an example for authors of stores: a [snapshot.Store] on SQLite
// that uses [storekit]. It passes the tests of package storetest.
//
// Many processes of one machine can use the same database. Each process renews a lease; when the
// lease expires, other processes can open its runs. The lease does not fence a process; instead,
// each statement that appends checks the token of the opening in the row of the run.
package sqlitestore
