package memstore_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// TestALostAnswerGoesUnnoticed appends records both at once and in the background.
func TestALostAnswerGoesUnnoticed(t *testing.T) {
	for name, poll := range map[string]time.Duration{"at once": 0, "in the background": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			storetest.RunLostAnswers(t, func(_ *testing.T, next func() storetest.Fault) snapshot.Store {
				return memstore.NewOn(func(b storekit.Backend) storekit.Backend { return storetest.OnBadConnection(b, next) }, storekit.Options{Poll: poll})
			})
		})
	}
}

// A process that was suspended for longer than its lease appends records before anything else has
// noticed that the lease is over.
func TestAppendNoticesThatTheLeaseIsOver(t *testing.T) {
	lost := make(chan struct{})
	var isOver atomic.Bool
	s := memstore.NewOn(func(b storekit.Backend) storekit.Backend { return b }, storekit.Options{
		Poll: time.Millisecond,
		Lost: func() <-chan struct{} { // like Lease.Lost, which checks the clock
			if isOver.CompareAndSwap(true, false) {
				close(lost)
			}
			return lost
		},
	})
	j, err := s.Open(t.Context(), "run", snapshot.OpenOptions{Create: true})
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	isOver.Store(true)
	require.ErrorIs(t, j.Append(storetest.Records(2, 1)...), snapshot.ErrLease)
	require.ErrorIs(t, j.Close(t.Context(), snapshot.End{}), snapshot.ErrLease)
}
