package memstore

import "github.com/reprise-go/reprise/snapshot/storekit"

// NewOn returns a store whose backend is the one that wrap returns when called with the backend of
// a Store.
func NewOn(wrap func(storekit.Backend) storekit.Backend, o storekit.Options) *Store {
	return &Store{Store: storekit.New(wrap(newMemory()), o)}
}
