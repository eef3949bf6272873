package turn

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// conversations holds the turns of one thread.
type conversations struct {
	streamer.Threads
	turns []streamer.ThreadTurn
}

func (c *conversations) Turns(context.Context, string, int) ([]streamer.ThreadTurn, error) {
	return c.turns, nil
}

func (c *conversations) Send(_ context.Context, _ string, m streamer.ThreadMessage) (streamer.ThreadTurn, bool, error) {
	turn := streamer.ThreadTurn{Turn: len(c.turns) + 1, ID: m.ID}
	c.turns = append(c.turns, turn)
	return turn, true, nil
}

// TestARequestJoinsTheTurnThatAnotherBeganMeanwhile sends a message in two requests, both of which have
// read the last turn before either begins the next.
func TestARequestJoinsTheTurnThatAnotherBeganMeanwhile(t *testing.T) {
	threads := &conversations{turns: []streamer.ThreadTurn{{Turn: 1, ID: "first"}}}
	thread := &Thread{Threads: threads, Scope: &streamer.Access{}}
	last, err := thread.Last(t.Context())
	require.NoError(t, err)
	for range 2 {
		sent, err := thread.Send(t.Context(), last, streamer.ThreadMessage{ID: "again"})
		require.NoError(t, err)
		assert.Equal(t, &streamer.ThreadTurn{Turn: 2, ID: "again"}, sent)
	}
	assert.Len(t, threads.turns, 2)

	last, err = thread.Last(t.Context())
	require.NoError(t, err)
	_, err = thread.Send(t.Context(), last, streamer.ThreadMessage{ID: "first"})
	var refused *Refusal
	require.ErrorAs(t, err, &refused)
	assert.Contains(t, refused.Message, "it began turn 1, and other turns have followed")
	assert.Len(t, threads.turns, 2)
}
