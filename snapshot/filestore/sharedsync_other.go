//go:build !linux

package filestore

// newSharedSync returns nil: each file is synced separately.
func newSharedSync(string) *sharedSync { return nil }
