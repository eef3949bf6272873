package stored_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

const secret = "tok_live_4242"

type word struct {
	Text string `json:"text"`
}

func hide(text string) string { return strings.ReplaceAll(text, secret, "****") }

// confide makes a run in which every kind of text contains the secret.
func confide(t *testing.T, store snapshot.Store, runID string, options ...state.Option) {
	st, err := state.Open(t.Context(), store, runID, append(options, state.WithPayloads(),
		state.WithMetadata(snapshot.Metadata{Description: "with " + secret}), state.WithRedaction(hide))...)
	require.NoError(t, err)
	ctx := st.Context(t.Context())
	leak := decorators.Tool("leak", "tells all", func(ctx context.Context, in word) (json.RawMessage, error) {
		state.From(ctx).Log(slog.LevelInfo, "told "+in.Text, map[string]any{"token": in})
		return json.RawMessage(fmt.Sprintf("{%q: %q}", "token", in.Text)), nil
	})
	_, err = leak.Call(ctx, word{secret})
	require.NoError(t, err)
	fail := decorators.Tool("fail", "fails with all", func(_ context.Context, in word) (int, error) {
		return 0, errors.New("no " + in.Text)
	})
	_, err = fail.Call(ctx, word{secret})
	require.Error(t, err)
	ask := decorators.Agent("ask", "asks", func(ctx context.Context, in word) (string, error) {
		return core.Await[string](ctx, "is it "+in.Text+"?")
	})
	_, err = ask.Call(ctx, word{secret})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
}

// TestWhatAStoreKeepsIsRedacted checks that the texts of runs are redacted, even if a run was
// published to the handler and is then read from the store.
func TestWhatAStoreKeepsIsRedacted(t *testing.T) {
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			h, url := serveWith(t, stored.New(store), streamer.Options{Redact: redact.Func(hide), History: 3})
			confide(t, store, "old")
			confide(t, store, "live", state.WithPublisher(h))
			for _, run := range []string{"old", "live"} {
				assertHidden(t, run, body(t, url+"/api/runs/"+run))
				client := streamer.Client{URL: url, Run: run}
				for e, err := range client.Events(t.Context()) {
					require.NoError(t, err)
					assertHidden(t, run, string(e.Data))
					if e.Name == "run_paused" {
						break
					}
				}
			}
			assertHidden(t, "list", body(t, url+"/api/runs"))
			assert.Contains(t, body(t, url+"/api/runs"), "with ****")
		})
	}
}

func assertHidden(t *testing.T, what, text string) {
	t.Helper()
	assert.NotContains(t, text, secret, what)
	assert.NotContains(t, text, "dG9rX2xpdm", what)
}

func body(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	require.NoError(t, err)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode, "%s", data)
	return string(data)
}
