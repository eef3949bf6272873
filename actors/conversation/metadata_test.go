package conversation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The metadata of a program's own, such as a tag for a budget, is added to the conversation's.
func TestTurnsHaveTheMetadataOfTheProgramToo(t *testing.T) {
	store := memstore.New()
	agent := actors.NewAgent("assistant", actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant("yes")}, nil
	}))
	own := snapshot.Metadata{Tags: []string{"tenant:x"}, Custom: map[string]string{"plan": "basic"}}
	c, err := conversation.Open(t.Context(), store, "alice", agent, conversation.WithRunOptions(state.WithMetadata(own)))
	require.NoError(t, err)
	for _, text := range []string{"one", "two"} {
		_, err = c.Ask(t.Context(), text)
		require.NoError(t, err)
	}
	info, err := store.Info(t.Context(), c.RunID())
	require.NoError(t, err)
	assert.Equal(t, []string{"conversation:alice", "tenant:x"}, info.Metadata.Tags)
	assert.Equal(t, "basic", info.Metadata.Custom["plan"])
	assert.Equal(t, "assistant", info.Metadata.Pipeline)

	c, err = conversation.Open(t.Context(), store, "alice", agent)
	require.NoError(t, err)
	assert.Equal(t, 2, c.Turns())
	assert.Len(t, c.History(), 4)
}
