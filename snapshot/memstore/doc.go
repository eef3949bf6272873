// Package memstore implements a [snapshot.Store] in memory. It is for tests and
// for runs that need not outlive their process.
package memstore
