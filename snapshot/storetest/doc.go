// Package storetest checks implementations of [snapshot.Store], of
// [snapshot.Inbox] and of [snapshot.ArtifactStore] against the rules in their
// comments. It needs nothing but package testing:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) snapshot.Store { return mystore.New(t.TempDir()) })
//	}
//
// RunShared checks a store that several processes have open at once, RunCrash
// what it says of runs whose process was killed, and RunArtifacts an artifact
// store alone.
package storetest
