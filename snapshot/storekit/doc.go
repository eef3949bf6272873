// Package storekit is for authors of stores. It contains what all stores of runs have in
// common.
//
// [New] makes a store from a [Backend] of ten methods; each method is one transaction of a
// database. Everything else that a journal, a follower or a watcher needs is in this package: the
// numbers of records, fencing, waiting for an open run, the order of events, and repeating
// statements whose answer was lost. Artifacts are left to the store. Package memstore and the
// nested module sqlitestore, which is an example, are made this way.
//
// A store that cannot compare and replace a [Head] may use the parts: a [Journal] stores what is
// appended to it by a [Writer] of three methods, as in package jetstream, and functions change an
// Info, pick the page of a list, and name artifacts. Package filestore uses only these functions.
// Such a store implements [snapshot.Store], stores the encoded forms of [snapshot.AppendInfo] and
// [snapshot.AppendRecord], and passes the tests of package storetest. These fields are set as
// follows:
//
//   - RunID of a record is not encoded: the store sets it in the results of Records,
//     Follow, Watch and Messages. A [snapshot.Run] sets it in its own records.
//   - Open of an Info is not encoded: the store determines it.
//   - Updated is set by [CreatedInfo], [OpenedInfo], [UpdatedInfo] and [ClosedInfo].
//   - Generation, Owner, Status and Stop are set by [OpenedInfo], [ClosedInfo] and [CrashedInfo]. If
//     Load, Info, List or Update find a run that is running although no process has it
//     open, they pass it through [CrashedInfo] first; [OpenedInfo] does that itself.
//   - LastSeq is set by [snapshot.NewRun] and [snapshot.Run.Extend], which make a run from
//     encoded records; otherwise the store sets it.
package storekit
