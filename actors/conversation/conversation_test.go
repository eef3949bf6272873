package conversation_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

type nothing struct{}

// model is an LLM that counts its requests. In each turn it calls the tool once and then answers
// with the number of messages it received.
type model struct {
	asked int
	fail  error
}

func (m *model) respond(_ context.Context, req actors.Request) (actors.Response, error) {
	m.asked++
	if m.fail != nil {
		return actors.Response{}, core.Permanent(m.fail)
	}
	last := req.Messages[len(req.Messages)-1]
	if last.Role == actors.RoleUser {
		return actors.Response{Message: actors.Message{
			Role: actors.RoleAssistant, ToolCalls: []actors.ToolCall{{ID: fmt.Sprint("c", m.asked), Name: "look", Arguments: "{}"}},
		}}, nil
	}
	return actors.Response{Message: actors.Assistant(fmt.Sprint("after ", len(req.Messages)))}, nil
}

// setup returns an agent whose tool calls look.
func setup(m *model, look func(ctx context.Context) (string, error)) conversation.Agent {
	tool := decorators.Tool("look", "", func(ctx context.Context, _ nothing) (string, error) { return look(ctx) })
	return actors.NewAgent("assistant", actors.NewLLM("model", m.respond), actors.WithTools(tool), actors.WithInstructions("Be brief."))
}

func sees(context.Context) (string, error) { return "seen", nil }

func TestEachTurnHasTheHistoryOfThoseBefore(t *testing.T) {
	store, m := memstore.New(), new(model)
	var chat *conversation.Conversation
	for turn := 1; turn <= 4; turn++ {
		var err error
		if turn != 3 { // the conversation is opened again for each turn but one
			chat, err = conversation.Open(t.Context(), store, "alice", setup(m, sees))
			require.NoError(t, err)
		}
		answer, err := chat.Ask(t.Context(), fmt.Sprint("question ", turn))
		require.NoError(t, err)
		assert.Equal(t, fmt.Sprint("after ", 1+4*(turn-1)+3), answer.Text)
		assert.Len(t, chat.History(), 4*turn)
		assert.Equal(t, turn, chat.Turns())
		assert.Equal(t, fmt.Sprintf("alice-%04d", turn), chat.RunID())
	}
	assert.Equal(t, 8, m.asked, "each turn is made once, and none when the conversation is opened")
	history := chat.History()
	assert.Equal(t, actors.User("question 1"), history[0])
	assert.Equal(t, actors.ToolResult("c1", "seen"), history[2])

	other, err := conversation.Open(t.Context(), store, "alic", setup(m, sees))
	require.NoError(t, err)
	assert.Empty(t, other.History(), "another conversation")
	assert.Empty(t, other.RunID())
}

func TestHistoryHasABoundThatCutsBetweenTurns(t *testing.T) {
	for most, want := range map[int]int{1: 0, 4: 4, 7: 4, 8: 8, 100: 12} {
		store, m := memstore.New(), new(model)
		for range 3 {
			chat, err := conversation.Open(t.Context(), store, "bob", setup(m, sees), conversation.WithMaxMessages(most))
			require.NoError(t, err)
			_, err = chat.Ask(t.Context(), "?")
			require.NoError(t, err)
			assert.LessOrEqual(t, len(chat.History()), most)
			if chat.Turns() == 3 {
				require.Len(t, chat.History(), want)
				if want > 0 {
					assert.Equal(t, actors.RoleUser, chat.History()[0].Role)
				}
			}
		}
	}
	assert.Panics(t, func() {
		_, _ = conversation.Open(t.Context(), memstore.New(), "x", setup(new(model), sees), conversation.WithMaxMessages(0))
	})
}

func TestATurnThatWasInterruptedContinues(t *testing.T) {
	store, m := memstore.New(), new(model)
	stop := true
	agent := setup(m, func(ctx context.Context) (string, error) {
		if stop {
			state.From(ctx).Interrupt(snapshot.Stop{})
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "seen", nil
	})
	chat, err := conversation.Open(t.Context(), store, "carol", agent)
	require.NoError(t, err)
	_, err = chat.Continue(t.Context())
	require.ErrorIs(t, err, conversation.ErrNothingPending)
	_, err = chat.Ask(t.Context(), "first?")
	require.ErrorIs(t, err, core.ErrInterrupted)
	_, err = chat.Ask(t.Context(), "second?")
	require.ErrorIs(t, err, conversation.ErrPending)

	chat, err = conversation.Open(t.Context(), store, "carol", agent)
	require.NoError(t, err)
	prompt, pending := chat.Pending()
	require.True(t, pending)
	assert.Equal(t, actors.Ask("first?"), prompt)
	stop = false
	answer, err := chat.Continue(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "after 4", answer.Text)
	assert.Equal(t, 2, m.asked)
	assert.Equal(t, 1, chat.Turns())
	_, pending = chat.Pending()
	assert.False(t, pending)
}

func TestATurnThatAsksAHumanContinuesWithTheAnswer(t *testing.T) {
	store, m := memstore.New(), new(model)
	agent := setup(m, func(ctx context.Context) (string, error) { return core.Await[string](ctx, "What do you see?") })
	chat, err := conversation.Open(t.Context(), store, "dave", agent)
	require.NoError(t, err)
	_, err = chat.Ask(t.Context(), "?")
	var waiting *core.InterruptedError
	require.ErrorAs(t, err, &waiting)
	require.NoError(t, state.Answer(t.Context(), store, chat.RunID(), waiting.Question, "", "a cat"))
	_, err = chat.Continue(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "a cat", chat.History()[2].Text)
}

func TestATurnThatFailsLeavesNoTrace(t *testing.T) {
	store, m := memstore.New(), new(model)
	chat, err := conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	_, err = chat.Ask(t.Context(), "one?")
	require.NoError(t, err)
	m.fail = errors.New("boom")
	_, err = chat.Ask(t.Context(), "two?")
	require.ErrorIs(t, err, m.fail)
	assert.Len(t, chat.History(), 4)

	m.fail = nil
	chat, err = conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	assert.Len(t, chat.History(), 4)
	_, pending := chat.Pending()
	assert.False(t, pending, "a failed turn is not pending")
	_, err = chat.Ask(t.Context(), "three?")
	require.NoError(t, err)
	assert.Equal(t, "erin-0003", chat.RunID())
	assert.Equal(t, actors.User("three?"), chat.History()[4])
}

func TestOptionsReachTheTurnAndItsRun(t *testing.T) {
	var asked actors.Request
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		asked = req
		return actors.Response{Message: actors.Assistant("ok")}, nil
	})
	records := 0
	chat, err := conversation.Open(t.Context(), memstore.New(), "fay", actors.NewAgent("assistant", llm),
		conversation.WithRunOptions(state.WithPublisher(publisher(func(record.Record) { records++ }))))
	require.NoError(t, err)
	_, err = chat.Send(t.Context(), actors.Prompt{Text: "?", Options: actors.ModelOptions{MaxTokens: 7}, History: []actors.Message{actors.User("not ours")}})
	require.NoError(t, err)
	assert.Equal(t, 7, asked.Options.MaxTokens)
	assert.Len(t, asked.Messages, 1)
	assert.Positive(t, records)
}

type publisher func(record.Record)

func (p publisher) Publish(r record.Record) { p(r) }

func TestWhatCannotBeRestoredIsAnError(t *testing.T) {
	_, err := conversation.Open(t.Context(), memstore.New(), "../x", setup(new(model), sees))
	if err == nil { // the store returns the error when the first run begins
		chat, openErr := conversation.Open(t.Context(), memstore.New(), "../x", setup(new(model), sees))
		require.NoError(t, openErr)
		_, err = chat.Ask(t.Context(), "?")
	}
	require.Error(t, err)
}

func Example() {
	llm := actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant(fmt.Sprintf("That was message %d.", len(req.Messages)))}, nil
	})
	store := memstore.New()
	for range 2 { // as in two programs, one after the other
		chat, err := conversation.Open(context.Background(), store, "alice", actors.NewAgent("assistant", llm))
		if err != nil {
			fmt.Println(err)
			return
		}
		answer, err := chat.Ask(context.Background(), "Hello")
		fmt.Println(answer.Text, err)
	}
	// Output:
	// That was message 1. <nil>
	// That was message 3. <nil>
}

func TestATurnThatIsRetriedIsPending(t *testing.T) {
	store, m := memstore.New(), new(model)
	chat, err := conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	m.fail = errors.New("boom")
	_, err = chat.Ask(t.Context(), "one?")
	require.ErrorIs(t, err, m.fail)
	_, err = state.Retry(t.Context(), store, chat.RunID())
	require.NoError(t, err)
	m.fail = nil
	asked := m.asked

	chat, err = conversation.Open(t.Context(), store, "erin", setup(m, sees))
	require.NoError(t, err)
	_, pending := chat.Pending()
	require.True(t, pending)
	assert.Equal(t, asked, m.asked, "Open makes no call")
	_, err = chat.Continue(t.Context())
	require.NoError(t, err)
	assert.Greater(t, m.asked, asked)
}
