package conversation_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A turn is closed even if its goroutine ends: it would otherwise be locked until the process ends.
func TestTurnThatEndsItsGoroutineIsClosed(t *testing.T) {
	store, m := memstore.New(), new(model)
	agent := actors.NewAgent("assistant", actors.NewLLM("model", m.respond), actors.WithInstructionsFunc(func(context.Context, actors.Prompt) (string, error) {
		runtime.Goexit()
		return "", nil
	}))
	chat, err := conversation.Open(t.Context(), store, "frank", agent)
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = chat.Ask(t.Context(), "?")
	}()
	<-done
	info, err := store.Info(t.Context(), "frank-0001")
	require.NoError(t, err)
	assert.False(t, info.Open)
	_, err = conversation.Open(t.Context(), store, "frank", setup(m, sees))
	require.NoError(t, err)
}
