package runner

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// An open run can be interrupted with a context that has already ended.
func TestStateOfAnOpenRunNeedsNoContext(t *testing.T) {
	r, err := New(memstore.New(), Options{})
	require.NoError(t, err)
	opened := make(chan struct{})
	close(opened)
	st := state.New()
	r.open["a"] = &openRun{opened: opened, st: st}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		got, err := r.stateOf(ended, "a")
		require.NoError(t, err)
		require.Same(t, st, got)
	}
}
