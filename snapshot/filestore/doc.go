// Package filestore implements a [snapshot.Store] in a directory. All processes on
// one machine can share the directory.
//
// docs/format.md specifies every byte of the files.
package filestore
