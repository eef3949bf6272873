package conversation_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A program's own metadata, such as a tag for a budget, is added to the conversation's metadata.
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

// A pending turn keeps the history that it began with, even if the limit has changed since.
func TestPendingTurnKeepsItsMaximumOfMessages(t *testing.T) {
	store := memstore.New()
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ struct{}) (string, error) { return core.Await[string](ctx, "ok?") })
	agent := actors.NewAgent("assistant", actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Text == "pause" {
			call := actors.ToolCall{ID: "1", Name: "ask", Arguments: "{}"}
			return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{call}}}, nil
		}
		return actors.Response{Message: actors.Assistant("yes")}, nil
	}), actors.WithTools(ask))
	c, err := conversation.Open(t.Context(), store, "alice", agent)
	require.NoError(t, err)
	for range 3 {
		_, err = c.Ask(t.Context(), "hi")
		require.NoError(t, err)
	}
	_, err = c.Ask(t.Context(), "pause")
	require.ErrorIs(t, err, core.ErrAwaiting)
	open, err := state.Questions(t.Context(), store, c.RunID())
	require.NoError(t, err)
	require.NoError(t, state.Answer(t.Context(), store, c.RunID(), open[0].ID, "ann", "fine"))

	c, err = conversation.Open(t.Context(), store, "alice", agent, conversation.WithMaxMessages(2))
	require.NoError(t, err)
	answer, err := c.Continue(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "yes", answer.Text)
	assert.LessOrEqual(t, len(c.History()), 2)
}
