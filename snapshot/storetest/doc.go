// Package storetest checks implementations of [snapshot.Store], [snapshot.Inbox] and
// [snapshot.ArtifactStore] against the rules in their comments. It only needs package
// testing:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) snapshot.Store { return mystore.New(t.TempDir()) })
//	}
//
// RunShared checks a store that several processes have open at once, RunCrash how a store
// reports runs whose process was killed, and RunArtifacts only an artifact store.
package storetest
