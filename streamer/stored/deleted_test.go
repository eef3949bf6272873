package stored_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

func TestStreamsSayThatTheirRunWasDeleted(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			run(t, store, "r", 3)
			h, url := serve(t, stored.New(store))
			client := streamer.Client{URL: url, Run: "r"}
			deleted := false
			for e, err := range client.Events(t.Context()) {
				require.NoError(t, err)
				switch e.Name {
				case "run_completed":
					require.NoError(t, store.Delete(t.Context(), "r"))
					h.PublishDeletion(t.Context(), "r")
				case "deleted":
					deleted = true
				}
				if deleted {
					break
				}
			}
			assert.True(t, deleted)
		})
	}
}

// TestDeletionsAreFollowed deletes runs until the watch reports a deletion. The watch begins some
// time after the test.
func TestDeletionsAreFollowed(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			told := make(chan string, 1000)
			var following sync.WaitGroup
			following.Go(func() {
				ignore := func(context.Context, string) {}
				assert.ErrorIs(t, stored.New(store).FollowChanges(ctx, func(_ context.Context, runID string) { told <- runID }, ignore), context.Canceled)
			})
			defer following.Wait()
			defer cancel()
			for i := 0; len(told) == 0; i++ { // the watch may begin late
				id := fmt.Sprint("r", i)
				run(t, store, id, 1)
				require.NoError(t, store.Delete(ctx, id))
			}
			assert.Contains(t, <-told, "r")
		})
	}
}
