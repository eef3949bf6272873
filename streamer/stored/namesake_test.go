package stored_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/streamer/stored"
)

func TestRunThatWasDeletedAndStartedAgainIsFollowedFromItsFirstRecord(t *testing.T) {
	store, err := filestore.New(t.TempDir(), filestore.WithPolling(time.Millisecond))
	require.NoError(t, err)
	run(t, store, "r", 10)
	ctx, cancel := context.WithCancel(t.Context())
	records := make(chan record.Record, 1000)
	var following sync.WaitGroup
	following.Go(func() {
		assert.ErrorIs(t, stored.New(store).Follow(ctx, publisher(func(r record.Record) { records <- r })), context.Canceled)
	})
	defer following.Wait()
	defer cancel()

	run(t, store, "r", 12)
	until := func() (first uint64) {
		for r := range records {
			if first == 0 {
				first = r.Seq
			}
			if r.Kind == record.KindRun && r.Status == record.StatusCompleted {
				return first
			}
		}
		return 0
	}
	until()
	require.NoError(t, store.Delete(ctx, "r"))
	run(t, store, "r", 2)
	assert.EqualValues(t, 1, until())
}
