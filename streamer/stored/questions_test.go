package stored_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// No records of the run were published to the handler, and nobody has looked at it before.
func TestListedQuestionsAreWhole(t *testing.T) {
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "r")
	require.NoError(t, err)
	ask := decorators.Tool("ask", "Asks.", func(ctx context.Context, _ struct{}) (bool, error) {
		return core.Await[bool](ctx, "well?")
	})
	_, err = ask.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	_, url := serveWith(t, stored.New(store), streamer.Options{})
	body := fetch[streamer.OpenQuestions](t, url+"/api/questions")
	require.Len(t, body.Questions, 1)
	assert.JSONEq(t, `{"type": "boolean"}`, string(body.Questions[0].Schema))
	assert.EqualValues(t, 3, body.Questions[0].Seq)
}

func fetch[T any](t *testing.T, url string) (body T) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
	return body
}

// The run was cancelled while it waited for an answer, and now the compensation of a call asks a
// question, too. Only that question can still be answered.
func TestACancelledRunListsOnlyTheQuestionsOfCompensations(t *testing.T) {
	store := memstore.New()
	book := decorators.Tool("book", "", func(context.Context, struct{}) (string, error) { return "seat 1", nil }).
		Compensate(func(ctx context.Context, _ struct{}, _ string) error {
			_, err := core.Await[bool](ctx, "undone?")
			return err
		})
	ask := decorators.Tool("ask", "", func(ctx context.Context, _ struct{}) (bool, error) { return core.Await[bool](ctx, "well?") })
	st, err := state.Open(t.Context(), store, "r", state.WithCompensations(book))
	require.NoError(t, err)
	_, err = book.Call(st.Context(t.Context()), struct{}{})
	require.NoError(t, err)
	_, err = ask.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	require.NoError(t, state.Cancel(t.Context(), store, "r", snapshot.Stop{By: "ann"}))
	_, err = state.Open(t.Context(), store, "r", state.WithCompensations(book))
	require.ErrorIs(t, err, state.ErrCancelled)

	_, url := serveWith(t, stored.New(store), streamer.Options{})
	var ids []string
	for _, q := range fetch[streamer.OpenQuestions](t, url+"/api/questions").Questions {
		ids = append(ids, "all: "+q.ID)
	}
	listed := fetch[streamer.RunList](t, url+"/api/runs").Runs[0]
	assert.Equal(t, "paused", listed.Status)
	one := fetch[struct{ Run streamer.RunState }](t, url+"/api/runs/r").Run
	for name, run := range map[string]streamer.RunState{"listed": listed, "one": one} {
		assert.Equal(t, &streamer.Stop{Reason: "cancel", By: "ann"}, run.Stopping, name)
		require.Len(t, run.Questions, 1, name)
		ids = append(ids, run.Questions[0].ID)
	}
	assert.Equal(t, []string{"all: book@undo/book?1", "book@undo/book?1", "book@undo/book?1"}, ids)
}
