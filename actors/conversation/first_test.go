package conversation_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// Two processes open a conversation before its first turn.
func TestFirstTurnOfAnotherProcessIsSeen(t *testing.T) {
	store, m := memstore.New(), new(model)
	one, err := conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	two, err := conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	_, err = one.Ask(t.Context(), "first?")
	require.NoError(t, err)
	answer, err := two.Ask(t.Context(), "second?")
	require.NoError(t, err)
	assert.Equal(t, "after 8", answer.Text, "the second turn has the history of the first")
	assert.Equal(t, 2, two.Turns())
	assert.Equal(t, 4, m.asked)
}

// A turn with the same question is still a new turn.
func TestSameQuestionOfAnotherProcessIsAnotherTurn(t *testing.T) {
	store, m := memstore.New(), new(model)
	one, err := conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	two, err := conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	_, err = one.Ask(t.Context(), "hello")
	require.NoError(t, err)
	_, err = two.Ask(t.Context(), "hello")
	require.NoError(t, err)
	assert.Equal(t, 2, two.Turns())
}
