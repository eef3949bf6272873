// Package snapshot is the stored form of a run: records as msgpack, the
// document that holds a whole run, and what a store of runs must do.
//
// A [Store] opens a run as a [Journal], which has one writer and to which
// records are appended as they happen. It loads a run as a [Run], whose records
// stay encoded until they are read; it lists, follows and deletes runs. Its
// [Inbox] takes messages for runs from any process, and large outputs are
// artifacts, kept by their content in its [ArtifactStore]. Package filestore
// keeps runs in a directory, package memstore in memory. Package
// storekit is for authors of other stores, and package storetest checks them.
// Package diff compares two runs.
//
// [Run.Encode] encodes a run as one document, and [Decode] reads it: a run that was
// exported from one store can be created in another, and continues there.
//
// docs/format.md describes every byte.
package snapshot
