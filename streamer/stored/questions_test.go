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
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// No records of the run were published to the handler, and nobody has looked at the run before.
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

	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/questions", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	var body streamer.OpenQuestions
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&body))
	require.Len(t, body.Questions, 1)
	assert.JSONEq(t, `{"type": "boolean"}`, string(body.Questions[0].Schema))
	assert.EqualValues(t, 3, body.Questions[0].Seq)
}
