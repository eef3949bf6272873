package memstore

import "github.com/reprise-go/reprise/snapshot/storekit"

// NewOn returns a store on the backend that wrap returns for the backend of a Store.
func NewOn(wrap func(storekit.Backend) storekit.Backend, o storekit.Options) *Store {
	return &Store{Store: storekit.New(wrap(newMemory()), o)}
}
