package conversation_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/actorstest"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// The process ended between the failure of the agent and its compensations. Opening the
// conversation, perhaps only to show it, does not run the compensations; Continue does.
func TestOpeningAConversationCompensatesNothing(t *testing.T) {
	var undone, others int
	pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) { others++; return "paid", nil }).
		Compensate(func(context.Context, struct{}, string) error { undone++; return nil })
	model := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		others++
		if req.Messages[len(req.Messages)-1].Role == actors.RoleTool {
			return actors.Response{}, core.Permanent(errors.New("broken"))
		}
		return actors.Response{Message: actors.Message{Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: "1", Name: "pay", Arguments: "{}"}}}}, nil
	})
	agent := actors.NewAgent("assistant", model, actors.WithTools(pay))
	store := memstore.New()
	options := conversation.WithRunOptions(state.WithCompensations(pay))
	c, err := conversation.Open(t.Context(), store, "chat", agent, options)
	require.NoError(t, err)
	_, err = c.Ask(t.Context(), "pay")
	require.ErrorContains(t, err, "broken")
	require.Equal(t, 1, undone)
	for records, cut := range actorstest.AfterEachRecord(t, store, "chat-0001") {
		undone, others = 0, 0
		c, err := conversation.Open(t.Context(), cut, "chat", agent, options)
		require.NoError(t, err)
		assert.Zero(t, undone+others, "after %d records", len(records))
		if _, pending := c.Pending(); !pending {
			continue
		}
		_, err = c.Continue(t.Context())
		require.ErrorContains(t, err, "broken")
		assert.LessOrEqual(t, undone, 1)
		_, pending := c.Pending()
		assert.False(t, pending)
	}
}
