// Package storetest checks implementations of [snapshot.Store], [snapshot.Inbox] and
// [snapshot.ArtifactStore] against the rules in the comments of these interfaces. A test
// needs only package testing:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) snapshot.Store { return mystore.New(t.TempDir()) })
//	}
//
// [RunShared] checks a store that several processes have open at the same time. [RunCrash]
// checks how a store reports runs whose process was killed. [RunFencing] checks a store
// whose processes may lose their runs. [RunLostAnswers] checks a store that uses a bad
// connection. [RunArtifacts] checks an artifact store.
package storetest
