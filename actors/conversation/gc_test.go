package conversation_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
)

// A turn may wait in the queue for longer than the grace period of the garbage collection.
func TestGCKeepsThePictureOfATurnThatHasNotBegun(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	seen := 0
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		seen = len(req.Messages[0].Parts[0].Data)
		return actors.Response{Message: actors.Assistant("nice")}, nil
	})
	r, err := runner.New(store, runner.Options{})
	require.NoError(t, err)
	runner.Register(r, conversation.NewProgram(store, actors.NewAgent("assistant", llm)))
	next, err := conversation.Next(t.Context(), store, "ann", actors.Ask("look", actors.Image("image/png", make([]byte, 200_000))), 0)
	require.NoError(t, err)
	require.Len(t, next.Input.Artifacts(), 1)
	_, err = r.Start(t.Context(), "assistant", next.RunID, next.Input, runner.StartOptions{Metadata: next.Metadata})
	require.NoError(t, err)

	long := time.Now().Add(-24 * time.Hour)
	artifacts, err := filepath.Glob(filepath.Join(dir, "artifacts", "*", "*"))
	require.NoError(t, err)
	require.NotEmpty(t, artifacts)
	for _, name := range artifacts {
		require.NoError(t, os.Chtimes(name, long, long))
	}
	removed, err := store.GC(t.Context(), time.Hour)
	require.NoError(t, err)
	assert.Zero(t, removed)

	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx) }()
	info, err := r.Wait(t.Context(), next.RunID)
	stop()
	require.NoError(t, err)
	require.NoError(t, <-served)
	assert.Equal(t, snapshot.StatusCompleted, info.Status)
	assert.Equal(t, 200_000, seen)
}
