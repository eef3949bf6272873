package stored_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestStreamsSayThatTheirRunWasDeleted.
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
					h.Deleted(t.Context(), "r")
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

// TestDeletionsAreFollowed: of runs that are deleted after the store is watched.
func TestDeletionsAreFollowed(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			told := make(chan string, 1000)
			var following sync.WaitGroup
			following.Go(func() {
				assert.ErrorIs(t, stored.New(store).FollowDeletions(ctx, func(_ context.Context, runID string) { told <- runID }), context.Canceled)
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

// TestACursorIsOfOneRun: a client that comes back with that of a run that was deleted, or
// deleted and made anew with as many records, is told so.
func TestACursorIsOfOneRun(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			run(t, store, "r", 3)
			_, url := serve(t, stored.New(store))
			ids := follow(t, url, "", "run_completed")
			first := func() (names []string) {
				client := streamer.Client{URL: url, Run: "r", After: ids[4]}
				for e, err := range client.Events(t.Context()) {
					require.NoError(t, err)
					if names = append(names, e.Name); len(names) == 1 {
						return names
					}
				}
				return names
			}
			assert.NotContains(t, []string{"deleted", "reset"}, first()[0])

			require.NoError(t, store.Delete(t.Context(), "r"))
			_, url = serve(t, stored.New(store)) // which has heard of neither
			assert.Equal(t, []string{"deleted"}, first())
			time.Sleep(time.Millisecond) //nolint:forbidigo // the clock moves on: a store with a coarse one would give both the same time
			run(t, store, "r", 3)
			_, url = serve(t, stored.New(store))
			assert.Equal(t, []string{"reset"}, first())
		})
	}
}
