// Package snapshot is the stored form of a run: records as msgpack, the
// snapshot that holds them, and the stores that keep runs.
//
// A [Store] opens a run as a [Journal], which has one writer and to which
// records are appended as they happen; it loads runs for reading, lists and
// deletes them. [FileStore] keeps runs in a directory, [MemoryStore] in
// memory; package storetest checks any other implementation. Both are an
// [Inbox] too, which takes messages for runs that are open. Large outputs
// are artifacts, kept by their content in an [ArtifactStore].
//
// docs/format.md describes every byte.
package snapshot
