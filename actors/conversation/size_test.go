package conversation_test

import (
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/filestore"
	"github.com/reprise-go/reprise/state"
)

// size returns the number of bytes in the files of a directory.
func size(t *testing.T, dir string) (bytes int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		bytes += info.Size()
		return err
	}))
	return bytes
}

// A picture sent in the first of 20 turns is stored once, and garbage collection keeps it. A long
// text sent in each turn is not stored again with later turns.
func TestWhatWasSaidIsStoredOnce(t *testing.T) {
	const turns, picture, text = 20, 1 << 20, 10_000
	data := make([]byte, picture)
	rand.NewChaCha8([32]byte{}).Read(data)
	seen := 0
	agent := actors.NewAgent("assistant", actors.NewLLM("model", func(_ context.Context, req actors.Request) (actors.Response, error) {
		seen = 0
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				assert.Empty(t, p.URL)
				assert.Equal(t, data, p.Data)
				seen++
			}
		}
		return actors.Response{Message: actors.Assistant("ok")}, nil
	}))
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	var first int64
	for turn := range turns {
		chat, err := conversation.Open(t.Context(), store, "ann", agent)
		require.NoError(t, err)
		var parts []actors.Part
		if turn == 0 {
			parts = []actors.Part{actors.Image("image/png", data)}
		}
		_, err = chat.Ask(t.Context(), fmt.Sprintf("%0*d", text, turn), parts...)
		require.NoError(t, err)
		require.Equal(t, 1, seen, "turn %d", turn+1)
		if turn == 0 {
			first = size(t, dir)
			require.Less(t, first, int64(picture+100_000))
		}
		_, err = store.GC(t.Context(), 0)
		require.NoError(t, err)
	}
	later := (size(t, dir) - first) / (turns - 1)
	t.Logf("%d bytes after the first turn, and %d for each later turn", first, later)
	assert.Less(t, later, int64(60_000), "bytes for a text of 10,000 bytes")
}

// A cancelled turn is not part of the history: the next turn has the same history as the cancelled
// one had.
func TestTurnAfterACancelledOneIsTaken(t *testing.T) {
	dir := t.TempDir()
	store, err := filestore.New(dir)
	require.NoError(t, err)
	defer func() { require.NoError(t, store.Close()) }()
	m := new(model)
	chat, err := conversation.Open(t.Context(), store, "ann", setup(m, sees))
	require.NoError(t, err)
	_, err = chat.Ask(t.Context(), "one?")
	require.NoError(t, err)
	waiting := setup(m, func(ctx context.Context) (string, error) {
		state.From(ctx).Interrupt(snapshot.Stop{})
		return "", context.Cause(ctx)
	})
	chat, err = conversation.Open(t.Context(), store, "ann", waiting)
	require.NoError(t, err)
	_, err = chat.Ask(t.Context(), "two?")
	require.Error(t, err)
	assert.Len(t, chat.History(), 4, "the history is available while the turn is pending")
	require.NoError(t, state.Cancel(t.Context(), store, chat.RunID(), snapshot.Stop{By: "ann"}))

	_, err = chat.Continue(t.Context())
	require.ErrorIs(t, err, state.ErrCancelled)
	answer, err := chat.Ask(t.Context(), "three?") // in the conversation that was already open
	require.Error(t, err, answer)                  // the agent of that conversation is waiting
	require.NoError(t, state.Cancel(t.Context(), store, chat.RunID(), snapshot.Stop{By: "ann"}))
	chat, err = conversation.Open(t.Context(), store, "ann", setup(m, sees))
	require.NoError(t, err)
	answer, err = chat.Ask(t.Context(), "four?")
	require.NoError(t, err)
	assert.Equal(t, "after 8", answer.Text)
	assert.Equal(t, "ann-0004", chat.RunID())
}
