package memstore_test

import (
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// TestALostAnswerGoesUnnoticed appends records at once, and in the background.
func TestALostAnswerGoesUnnoticed(t *testing.T) {
	for name, poll := range map[string]time.Duration{"at once": 0, "in the background": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			storetest.RunLostAnswers(t, func(_ *testing.T, next func() storetest.Fault) snapshot.Store {
				return memstore.NewOn(func(b storekit.Backend) storekit.Backend { return storetest.OnBadConnection(b, next) }, poll)
			})
		})
	}
}
