//go:build !linux

package main

// fileSystem returns the name of the file system that holds temporary files, and
// reports whether it is in memory, where syncing costs nothing.
func fileSystem() (name string, memory bool) { return "an unknown file system", false }

// placeApart has an effect only on Linux.
func placeApart(string) {}
