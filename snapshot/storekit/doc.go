// Package storekit is for authors of stores. It has what all stores of runs have in common.
//
// [New] makes a store of a [Backend]: nine methods, each of which is one transaction of a
// database. What a journal, a follower or a watcher needs beside them is the same for all:
// the numbers of records, fencing, waiting for a run that is open, the order of events, and
// what to do about a statement whose answer was lost. Artifacts are the store's own. The
// nested module sqlitestore is an example. Packages memstore and sqlitestore are made so.
//
// A store may also do all of that itself, as package filestore does. It then uses what is
// below New: how an Info changes in the life of a run, the pages of a list, and the
// references of artifacts. Such a store implements [snapshot.Store], stores the encoded forms of [snapshot.AppendInfo] and
// [snapshot.AppendRecord], and passes the tests of package storetest. These fields are set
// as follows:
//
//   - RunID of a record is not encoded: the store sets it in the results of Records,
//     Follow, Watch and Messages. A [snapshot.Run] sets it in its own records.
//   - Open of an Info is not encoded: the store determines it.
//   - Updated is set by [Opened], [Closed] and [Created]; in Update the store sets it to
//     [Later] of its previous value.
//   - Generation, Owner, Status and Stop are set by [Opened], [Closed] and [Crashed]. If
//     Load, Info, List or Update find a run that is running although no process has it
//     open, they pass it through [Crashed] first; [Opened] does that itself.
//   - LastSeq is set by [snapshot.NewRun] and [snapshot.Run.Extend], which make a run from
//     encoded records; otherwise the store sets it.
package storekit
