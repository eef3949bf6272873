package conversation_test

import (
	"context"
	"fmt"
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

// A looker is a model that answers the question "Look." only after several rounds, in each of which
// it makes several parallel calls to the tool look. It answers other questions immediately. It
// keeps its last request, without the instructions.
type looker struct {
	rounds, atOnce int
	request        []actors.Message
	before         func(ctx context.Context) // called before each answer
}

func (l *looker) respond(ctx context.Context, req actors.Request) (actors.Response, error) {
	l.request = req.Messages[1:]
	question, round := 0, 0
	for i, m := range l.request {
		switch m.Role {
		case actors.RoleUser:
			question, round = i, 0
		case actors.RoleAssistant:
			round++
		}
	}
	if l.request[question].Text != "Look." || round == l.rounds {
		if l.before != nil {
			l.before(ctx)
		}
		return actors.Response{Message: actors.Assistant("It is there.")}, ctx.Err()
	}
	m := actors.Message{Role: actors.RoleAssistant}
	for i := range l.atOnce {
		m.ToolCalls = append(m.ToolCalls, actors.ToolCall{ID: fmt.Sprintf("c%d_%d", round, i), Name: "look", Arguments: "{}"})
	}
	return actors.Response{Message: m}, nil
}

func (l *looker) agent() conversation.Agent {
	tool := decorators.Tool("look", "", func(context.Context, nothing) (string, error) { return "seen", nil })
	return actors.NewAgent("assistant", actors.NewLLM("model", l.respond), actors.WithTools(tool), actors.WithInstructions("Be brief."), actors.WithMaxTurns(100))
}

// requireExchanges checks that each call in the messages is followed by its result, and that each
// result follows its call.
func requireExchanges(t *testing.T, messages []actors.Message) {
	var open []string // the calls without a result
	for i, m := range messages {
		if m.Role == actors.RoleTool {
			require.NotEmpty(t, open, "message %d is a result without a call", i)
			require.Equal(t, open[0], m.ToolCallID)
			open = open[1:]
			continue
		}
		require.Empty(t, open, "message %d follows calls without results", i)
		for _, c := range m.ToolCalls {
			open = append(open, c.ID)
		}
	}
	require.Empty(t, open)
}

func TestQuestionAndAnswerOfALongTurnAreRemembered(t *testing.T) {
	for name, c := range map[string]struct {
		looker     looker
		most, want int
	}{
		"one call in each round":           {looker{rounds: 60, atOnce: 1}, 100, 100},
		"three calls in each round":        {looker{rounds: 40, atOnce: 3}, 100, 98},
		"a round that alone is too long":   {looker{rounds: 1, atOnce: 150}, 100, 2},
		"no room for a round":              {looker{rounds: 5, atOnce: 1}, 3, 2},
		"room for the question and answer": {looker{rounds: 5, atOnce: 1}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			store, l, most := memstore.New(), c.looker, conversation.WithMaxMessages(c.most)
			chat, err := conversation.Open(t.Context(), store, "c", l.agent(), most)
			require.NoError(t, err)
			_, err = chat.Ask(t.Context(), "Look.")
			require.NoError(t, err)
			history := chat.History()
			require.Len(t, history, c.want)
			assert.Equal(t, actors.User("Look."), history[0])
			assert.Equal(t, actors.Assistant("It is there."), history[len(history)-1])
			requireExchanges(t, history)

			again, err := conversation.Open(t.Context(), store, "c", l.agent(), most)
			require.NoError(t, err)
			assert.Equal(t, history, again.History(), "read from the store")
			_, err = again.Ask(t.Context(), "Where?")
			require.NoError(t, err)
			assert.Equal(t, append(history, actors.User("Where?")), l.request)

			history = again.History()
			assert.LessOrEqual(t, len(history), c.most)
			assert.Equal(t, []actors.Message{actors.User("Where?"), actors.Assistant("It is there.")}, history[len(history)-2:])
			again, err = conversation.Open(t.Context(), store, "c", l.agent(), most)
			require.NoError(t, err)
			assert.Equal(t, history, again.History(), "read from the store")
		})
	}
}

func TestATurnAfterALongOneContinuesWithTheSameHistory(t *testing.T) {
	store, l := memstore.New(), looker{rounds: 60, atOnce: 1}
	chat, err := conversation.Open(t.Context(), store, "c", l.agent())
	require.NoError(t, err)
	_, err = chat.Ask(t.Context(), "Look.")
	require.NoError(t, err)
	l.before = func(ctx context.Context) { state.From(ctx).Interrupt(snapshot.Stop{}) }
	_, err = chat.Ask(t.Context(), "Where?")
	require.True(t, core.IsSuspension(err), err)
	interrupted := l.request

	l.before = nil
	chat, err = conversation.Open(t.Context(), store, "c", l.agent())
	require.NoError(t, err)
	_, err = chat.Continue(t.Context())
	require.NoError(t, err)
	assert.Len(t, l.request, 101)
	assert.Equal(t, interrupted, l.request)
}

// loadCounter is a store that counts how many runs are loaded.
type loadCounter struct {
	snapshot.Store
	loads int
}

func (s *loadCounter) Load(ctx context.Context, runID string) (*snapshot.Run, error) {
	s.loads++
	return s.Store.Load(ctx, runID)
}

func TestOpenConversationReadsNoTurnTwice(t *testing.T) {
	store := &loadCounter{Store: memstore.New()}
	chat, err := conversation.Open(t.Context(), store, "alice", setup(new(model), sees))
	require.NoError(t, err)
	for range 12 {
		store.loads = 0
		_, err := chat.Ask(t.Context(), "hello")
		require.NoError(t, err)
		assert.LessOrEqual(t, store.loads, 3)
	}
	require.NoError(t, store.Delete(t.Context(), "alice-0010"))
	_, err = chat.Ask(t.Context(), "hello")
	require.NoError(t, err)
	assert.Len(t, chat.History(), 3*4, "a removed turn ends the history")
}
