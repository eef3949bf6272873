// Package filestore is a [snapshot.Store] in a directory, for the processes of
// one machine.
//
// docs/format.md describes every byte of its files.
package filestore
