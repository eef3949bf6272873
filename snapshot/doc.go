// Package snapshot defines how runs are stored: the msgpack form of records, the document that
// holds a whole run, and the interface of a store of runs.
//
// A [Store] opens a run as a [Journal], to which a single writer appends records as events happen.
// It loads a run as a [Run], whose records stay encoded until they are read. It also lists, follows
// and deletes runs. Its [Inbox] accepts messages for runs from any process, and its [ArtifactStore]
// stores large outputs, addressed by their content. Package filestore keeps runs in a directory,
// and package memstore keeps them in memory. Package storekit helps to implement other stores, and
// package storetest tests stores. Package diff compares two runs.
//
// [Run.Encode] encodes a run as one document, and [Decode] decodes such a document. A run that was
// exported from one store can be created in another and continued there.
//
// docs/format.md specifies every byte of the format.
package snapshot
