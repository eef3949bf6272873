package stored_test

import (
	"context"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestClientsAreToldWhoAsksARunToStop asks a run to stop in the way another process does: the run
// and the handler learn of it only from the store.
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
				assert.False(t, e.IsRecord())
				assert.JSONEq(t, `{"run_id":"r","stopping":{"reason":"user","by":"ann","message":"enough"}}`, string(e.Data))
				break
			}
		})
	}
}

// TestAStopDoesNotOvertakeTheRecordsOfAnotherProcess stops a run whose records are published to the
// handler only later.
func TestAStopDoesNotOvertakeTheRecordsOfAnotherProcess(t *testing.T) {
	store := memstore.New()
	h, url := serveWith(t, stored.New(store), streamer.Options{Control: stored.NewControl(store), Reconnect: time.Millisecond})
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	tool := decorators.Tool("tool", "", func(context.Context, struct{}) (string, error) { return "", nil })
	_, err = tool.Call(st.Context(t.Context()), struct{}{})
	require.NoError(t, err)
	st.Interrupt(snapshot.Stop{By: "ann"})
	require.NoError(t, st.Close())
	records := slices.Collect(recordsOf(t, store, "r"))
	h.Publish(records[0])

	client := streamer.Client{URL: url}
	client.Connected = sync.OnceFunc(func() {
		assert.NoError(t, client.Cancel(t.Context(), "r", streamer.Stop{By: "bob"}))
		for rec := range recordsOf(t, store, "r") {
			h.Publish(rec)
		}
	})
	var names []string
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		if names = append(names, e.Name); e.Name == "run_cancelled" {
			break
		}
	}
	assert.Equal(t, []string{"started", "completed", "run_interrupted", "run_cancelled"}, names)
}

func recordsOf(t *testing.T, store snapshot.Store, runID string) iter.Seq[record.Record] {
	return func(yield func(record.Record) bool) {
		for rec, err := range store.Records(t.Context(), runID, 0) {
			if !assert.NoError(t, err) || !yield(rec) {
				return
			}
		}
	}
}

// TestClientsSeeThatAClosedRunIsCancelled cancels runs that no process has open: one whose records
// were published to the handler, and one whose records were not.
func TestClientsSeeThatAClosedRunIsCancelled(t *testing.T) {
	for name, published := range map[string]bool{"a run that the handler has published": true, "a run of an earlier process": false} {
		t.Run(name, func(t *testing.T) {
			store := memstore.New()
			control := stored.NewControl(store)
			h, url := serveWith(t, stored.New(store), streamer.Options{Control: control, Reconnect: time.Millisecond})
			var options []state.Option
			if published {
				options = append(options, state.WithPublisher(h))
			}
			st, err := state.Open(t.Context(), store, "r", options...)
			require.NoError(t, err)
			st.Interrupt(snapshot.Stop{By: "ann"})
			require.NoError(t, st.Close())

			client := streamer.Client{URL: url}
			client.Connected = sync.OnceFunc(func() {
				assert.NoError(t, client.Cancel(t.Context(), "r", streamer.Stop{By: "bob"}))
			})
			for e, err := range client.Events(t.Context()) {
				require.NoError(t, err)
				require.Equal(t, "run_cancelled", e.Name)
				break
			}
		})
	}
}
