package jetstream_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
)

// TestWatcherEndsWhileTheServerDoesNotAnswer restores the connection but loses the answer to the
// request that creates the consumer again.
func TestWatcherEndsWhileTheServerDoesNotAnswer(t *testing.T) {
	t.Parallel()
	here, there, between := hereAndThere(t, longLease)
	j := begin(t, there, snapshot.OpenOptions{Create: true})
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan struct{})
	ended := make(chan error)
	go func() {
		var last error
		events := 0
		for _, err := range here.Watch(ctx, snapshot.WatchOptions{}) {
			last = err
			switch events++; events {
			case 1: // the run exists
				_, err := there.Update(t.Context(), "run", func(i *snapshot.Info) error {
					i.Pinned = true
					return nil
				})
				assert.NoError(t, err)
			case 2: // the watcher is now reading new messages
				close(begun)
			}
		}
		ended <- last
	}()
	<-begun
	between.Set(true, false)
	between.DeafAfter(".CONSUMER.CREATE.")
	require.Eventually(t, between.IsDeaf, patience, 10*time.Millisecond)
	cancel()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled)
	case <-time.After(patience):
		t.Fatal("the watcher should have ended")
	}
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}
