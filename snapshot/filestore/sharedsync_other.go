//go:build !linux

package filestore

// newSharedSync returns nil: each file is synced by itself.
func newSharedSync(string) *sharedSync { return nil }
