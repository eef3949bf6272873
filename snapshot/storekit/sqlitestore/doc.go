// Package sqlitestore is an example for authors of stores: a [snapshot.Store] on SQLite, of
// what [storekit] leaves to a store. It passes the tests of package storetest.
//
// Many processes of one machine may use a database. Each has a lease that it renews; the
// runs of a process whose lease is over can be opened by another. What fences is not the
// lease: each statement that appends compares the token of the opening in the row of the
// run.
package sqlitestore
