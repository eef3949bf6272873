package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A vanishing store deletes a run when it is read, as another process might.
type vanishing struct{ *memstore.Store }

func (s vanishing) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	if err := s.Delete(ctx, runID); err != nil {
		return nil, err
	}
	return s.Store.Load(ctx, runID)
}

func TestRunThatIsDeletedMeanwhileIsNotSelected(t *testing.T) {
	store := memstore.New()
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Program: "program", Status: snapshot.StatusFailed}, nil)
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	chosen, err := state.Selection{Reason: "exhausted"}.Each(t.Context(), vanishing{store}, snapshot.StatusFailed,
		func(context.Context, string) error { return nil })
	require.NoError(t, err)
	assert.Empty(t, chosen)
}
