package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// syncedStore counts the syncs of its journals.
type syncedStore struct {
	snapshot.Store
	syncs []uint64
}

func (s *syncedStore) Open(ctx context.Context, runID string, o snapshot.OpenOptions) (snapshot.Journal, error) {
	j, err := s.Store.Open(ctx, runID, o)
	return &syncedJournal{j, s}, err
}

type syncedJournal struct {
	snapshot.Journal
	store *syncedStore
}

func (j *syncedJournal) Sync(ctx context.Context, seq uint64) error {
	j.store.syncs = append(j.store.syncs, seq)
	return j.Journal.Sync(ctx, seq)
}

func TestEndsOfRootCallsMayWaitForClose(t *testing.T) {
	tool := decorators.Tool("tool", "", func(context.Context, struct{}) (int, error) { return 1, nil })
	agent := decorators.Agent("agent", "", tool.Call)
	syncs := func(options ...state.Option) []uint64 {
		store := &syncedStore{Store: memstore.New()}
		st, err := state.Open(t.Context(), store, "r", options...)
		require.NoError(t, err)
		_, err = agent.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, err)
		require.NoError(t, st.Close())
		return store.syncs
	}
	// Record 1 begins the run, 2 the agent and 3 the tool; 4 ends the tool and 5 the agent.
	assert.Equal(t, []uint64{4, 5}, syncs())
	assert.Equal(t, []uint64{4}, syncs(state.WithHost(state.Host{RootsAtClose: true})))
	assert.Equal(t, []uint64{}, append([]uint64{}, syncs(state.WithHost(state.Host{RootsAtClose: true}), state.WithSync(state.SyncNever))...))
}
