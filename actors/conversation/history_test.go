package conversation_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// unreadableArtifacts is a store that cannot read artifacts while denied is set.
type unreadableArtifacts struct {
	*memstore.Store
	denied atomic.Bool
}

func (s *unreadableArtifacts) Get(ctx context.Context, reference string) ([]byte, error) {
	if s.denied.Load() {
		return nil, errors.New("permission denied")
	}
	return s.Store.Get(ctx, reference)
}

// The answer of the first turn is an artifact, which cannot be read when the second turn begins.
func TestATurnWhoseHistoryCannotBeReadIsInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &unreadableArtifacts{Store: memstore.New()}
		llm := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
			return actors.Response{Message: actors.Assistant(strings.Repeat("long ", 20_000))}, nil
		})
		r, err := runner.New(store, runner.Options{})
		require.NoError(t, err)
		runner.Register(r, conversation.NewProgram(store, actors.NewAgent("assistant", llm)))
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- r.Serve(ctx) }()
		defer func() { stop(); assert.NoError(t, <-served) }()
		send := func() string {
			next, err := conversation.Next(t.Context(), store, "ann", actors.Ask("hello"), 0)
			require.NoError(t, err)
			_, err = r.Start(t.Context(), "assistant", next.RunID, next.Input, runner.StartOptions{Metadata: next.Metadata})
			require.NoError(t, err)
			return next.RunID
		}
		_, err = r.Wait(t.Context(), send())
		require.NoError(t, err)
		store.denied.Store(true)
		second := send()
		<-time.After(time.Hour)
		info, err := store.Info(t.Context(), second)
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusInterrupted, info.Status)
		assert.Equal(t, record.InterruptReplay, info.Stop.Reason)
		assert.Contains(t, info.Stop.Message, "read the history")
		assert.Contains(t, info.Stop.Message, "permission denied")

		store.denied.Store(false)
		require.NoError(t, r.Resume(t.Context(), second))
		<-time.After(time.Hour)
		info, err = store.Info(t.Context(), second)
		require.NoError(t, err)
		assert.Equal(t, snapshot.StatusCompleted, info.Status)
	})
}

// A custom agent answers some questions without a model, so those answers have no messages. The
// model still receives the earlier messages.
func TestTurnWithoutMessagesKeepsTheHistory(t *testing.T) {
	model := actors.NewLLM("model", func(context.Context, actors.Request) (actors.Response, error) {
		return actors.Response{Message: actors.Assistant("I see.")}, nil
	})
	inner := actors.NewAgent("inner", model)
	agent := decorators.Agent("assistant", "", func(ctx context.Context, p actors.Prompt) (actors.Answer, error) {
		if p.Text == "help" {
			return actors.Answer{Text: "Ask me anything."}, nil
		}
		return inner.Call(ctx, p)
	})
	store := memstore.New()
	c, err := conversation.Open(t.Context(), store, "chat", agent)
	require.NoError(t, err)
	for _, text := range []string{"My name is Ada.", "help", "And now?"} {
		_, err := c.Ask(t.Context(), text)
		require.NoError(t, err)
	}
	want := []actors.Message{actors.User("My name is Ada."), actors.Assistant("I see."), actors.User("And now?"), actors.Assistant("I see.")}
	assert.Equal(t, want, c.History())
	next, err := conversation.Open(t.Context(), store, "chat", agent)
	require.NoError(t, err)
	assert.Equal(t, want, next.History())
}
