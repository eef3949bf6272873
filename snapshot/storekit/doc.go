// Package storekit is what stores of runs have in common, for those who write
// one: how an Info changes in the life of a run, the pages of a list, and the
// references of artifacts.
//
// A store implements [snapshot.Store], keeps what [snapshot.AppendInfo] and
// [snapshot.AppendRecord] make, and passes the tests of package storetest.
package storekit
