package conversation_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A lostStore is unreachable the first time an artifact is read.
type lostStore struct {
	snapshot.Store
	reads int
}

func (s *lostStore) Get(ctx context.Context, reference string) ([]byte, error) {
	if s.reads++; s.reads == 1 {
		return nil, snapshot.ErrUnavailable
	}
	return s.Store.Get(ctx, reference)
}

func TestATurnWithAPictureContinuesWhenTheStoreIsBack(t *testing.T) {
	store := &lostStore{Store: memstore.New()}
	chat, err := conversation.Open(t.Context(), store, "dora", setup(new(model), sees))
	require.NoError(t, err)
	picture := actors.Part{MIME: "image/png", Data: bytes.Repeat([]byte("x"), 100_000)}
	_, err = chat.Ask(t.Context(), "What is this?", picture)
	require.ErrorIs(t, err, core.ErrInterrupted)
	_, err = chat.Continue(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 1, chat.Turns())
}
