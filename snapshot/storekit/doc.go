// Package storekit is for authors of stores. It contains the parts that all stores of runs
// have in common.
//
// [New] builds a store on a [Backend] with ten methods, each of which is one transaction in a
// database. This package does everything else that journals, followers and watchers need: it numbers
// records, fences writers, waits for open runs, orders events, and repeats statements whose answers
// were lost. It does not implement artifacts. Package memstore and the nested module sqlitestore,
// which is an example, are built in this way.
//
// A store that cannot compare and replace a [Head] can use the parts of this package. A [Journal]
// stores records with a [Writer], which has three methods; package jetstream uses it. Functions
// change an Info, select the page of a list, and name artifacts; package filestore uses only these
// functions. Such a store implements [snapshot.Store], stores infos and records as encoded by
// [snapshot.AppendInfo] and [snapshot.AppendRecord], and passes the tests of package storetest. It
// must set some fields as follows:
//
//   - Record.RunID is not encoded. The store sets it in the results of Records, Follow, Watch
//     and Messages. A [snapshot.Run] sets it in its own records.
//   - Info.Open is not encoded. The store sets it.
//   - Info.Updated is set by [CreatedInfo], [OpenedInfo], [UpdatedInfo] and [ClosedInfo].
//   - Info.Generation, Owner, Status and Stop are set by [OpenedInfo], [ClosedInfo] and
//     [CrashedInfo]. If a run has the status running but no process has it open, Load, Info, List
//     and Update must first call [CrashedInfo]; [OpenedInfo] calls it itself.
//   - Info.LastSeq is set by [snapshot.NewRun] and [snapshot.Run.Extend], with which a run is built
//     from encoded records. Elsewhere, the store sets it.
package storekit
