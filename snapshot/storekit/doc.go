// Package storekit is what stores of runs have in common, for those who write
// one: how an Info changes in the life of a run, the pages of a list, and the
// references of artifacts.
//
// A store implements [snapshot.Store], keeps what [snapshot.AppendInfo] and
// [snapshot.AppendRecord] make, and passes the tests of package storetest. Who
// sets what:
//
//   - RunID of a record is not encoded: the store sets it in what Records,
//     Follow, Watch and Messages return. A [snapshot.Run] sets it in its own.
//   - Open of an Info is not encoded: the store finds out.
//   - Updated is set by [Opened], [Closed] and [Created]; in Update the store sets
//     it, to [Later] of what it was.
//   - Generation, Owner, Status and Stop are set by [Opened], [Closed] and
//     [Crashed]. What Load, Info, List and Update find running although nobody
//     has it open goes through [Crashed] first; [Opened] does that itself.
//   - LastSeq is set by [snapshot.NewRun] and [snapshot.Run.Extend], which make a
//     run of encoded records; elsewhere the store sets it.
//
// The Example WritingAStore has the methods that all others build on.
package storekit
