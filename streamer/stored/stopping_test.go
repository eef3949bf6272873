package stored_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestClientsAreToldWhoAsksARunToStop asks a run to stop as another process does: the run and the
// handler know it from the store alone.
func TestClientsAreToldWhoAsksARunToStop(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			st, err := state.Open(t.Context(), store, "r")
			require.NoError(t, err)
			defer func() { assert.NoError(t, st.Close()) }()
			runs := stored.New(store)
			h, url := serve(t, runs)
			ctx, cancel := context.WithCancel(t.Context())
			var following sync.WaitGroup
			following.Go(func() { _ = runs.FollowChanges(ctx, h.PublishDeletion, h.PublishStopping) })
			defer following.Wait()
			defer cancel()

			client := streamer.Client{URL: url, Connected: sync.OnceFunc(func() {
				assert.NoError(t, state.Interrupt(ctx, store, "r", snapshot.Stop{By: "ann", Message: "enough"}))
			})}
			for e, err := range client.Events(ctx) {
				require.NoError(t, err)
				require.Equal(t, "stopping", e.Name)
				assert.JSONEq(t, `{"run_id":"r","stopping":{"reason":"user","by":"ann","message":"enough"}}`, string(e.Data))
				break
			}
		})
	}
}
