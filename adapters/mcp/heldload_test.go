package mcp_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/mcp"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// A loadedStore counts how often runs are loaded.
type loadedStore struct {
	snapshot.Store
	loads atomic.Int64
}

func (s *loadedStore) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	s.loads.Add(1)
	return s.Store.Load(ctx, runID)
}

// A client that waits for a long run must not slow it down: the run is not loaded again for each of
// its records.
func TestHeldCallDoesNotReadTheRunForEachRecord(t *testing.T) {
	files, err := filestore.New(t.TempDir())
	require.NoError(t, err)
	store := &loadedStore{Store: files}
	url, _, stop := served(t, store, mcp.ServerOptions{}, func(r *runner.Runner) {
		runner.Register(r, decorators.Agent("steps", "", func(ctx context.Context, _ struct{}) (string, error) {
			for i := range 300 {
				if _, err := core.Step(ctx, fmt.Sprint("step ", i), func(context.Context) (int, error) { return i, nil }); err != nil {
					return "", err
				}
			}
			return "done", nil
		}))
	})
	defer stop()
	session := connected(t, overHTTP(url), older, nil)
	require.Equal(t, "done", textOf(t, callTool(t, session, "steps", struct{}{})))
	assert.Less(t, store.loads.Load(), int64(10))
}
