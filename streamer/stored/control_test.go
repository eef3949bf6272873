package stored_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

func TestAnswerThatNoQuestionCouldHaveIsRefused(t *testing.T) {
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	ask := decorators.Tool("ask", "Asks.", func(ctx context.Context, _ struct{}) (bool, error) {
		return core.Await[bool](ctx, "well?")
	})
	_, err = ask.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())

	err = stored.NewControl(store).Resume(t.Context(), "r")
	require.ErrorIs(t, err, streamer.ErrConflict, "resuming the run has no effect")
	require.ErrorContains(t, err, "it is paused and waits for 1 answer; to answer: POST /api/runs/r/answer")
	h, url := serveWith(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)})
	_ = h
	client := &streamer.Client{URL: url}
	for _, deep := range []int{3000, 9000, 20_000} {
		value := json.RawMessage(strings.Repeat("[", deep) + strings.Repeat("]", deep))
		err := stored.NewControl(store).Answer(t.Context(), "r", "ask?1", "", value)
		require.ErrorIs(t, err, streamer.ErrInvalid)
		if deep < 10_000 { // the client itself refuses deeper values
			require.ErrorIs(t, client.Answer(t.Context(), "r", "ask?1", "", value), streamer.ErrInvalid)
		}
	}
	require.NoError(t, client.Answer(t.Context(), "r", "ask?1", "", true))
	require.NoError(t, stored.NewControl(store).Resume(t.Context(), "r"), "it waits only for its program")
	require.ErrorIs(t, client.Answer(t.Context(), "r", "ask?1", "", true), streamer.ErrConflict)
}

func TestASelectionOfAnotherStatusIsInvalid(t *testing.T) {
	c := stored.NewControl(memstore.New())
	_, err := c.ResumeAll(t.Context(), streamer.Selection{Status: "failed"})
	require.ErrorIs(t, err, streamer.ErrInvalid)
	require.ErrorContains(t, err, `status is "failed": want interrupted`)
	_, err = c.RetryAll(t.Context(), streamer.Selection{Status: "interrupted"})
	require.ErrorIs(t, err, streamer.ErrInvalid)
	chosen, err := c.RetryAll(t.Context(), streamer.Selection{Status: "failed"})
	require.NoError(t, err)
	assert.Empty(t, chosen)
}
