package memstore

import (
	"time"

	"github.com/reprise-go/reprise/snapshot/storekit"
)

// NewOn returns a store on the backend that wrap returns for the backend of a Store.
func NewOn(wrap func(storekit.Backend) storekit.Backend, poll time.Duration) *Store {
	return &Store{Store: storekit.New(wrap(newMemory()), storekit.Options{Poll: poll})}
}
