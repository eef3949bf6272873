package stored_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// Inputs and outputs are sent whole, regardless of their length and even if they are artifacts, but
// without secrets.
func TestInputsAndOutputsAreSentInFull(t *testing.T) {
	rules, err := redact.New(`tok_live_[0-9]+`)
	require.NoError(t, err)
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			long := strings.Repeat("line of text\n", 20_000) // an artifact
			echo := decorators.Tool("echo", "Echoes.", func(_ context.Context, in word) (word, error) { return word{long + in.Text}, nil })
			fail := decorators.Tool("fail", "Fails.", func(context.Context, word) (int, error) {
				return 0, core.Permanent(errors.New("first line\nsecond line with " + secret))
			})
			both := decorators.Agent("agent", "Does both.", func(ctx context.Context, in word) (string, error) {
				_, err := echo.Call(ctx, in)
				if err == nil {
					_, err = fail.Call(ctx, in)
				}
				return "", err
			})
			st, err := state.Open(t.Context(), store, "r", state.WithPayloads())
			require.NoError(t, err)
			_, err = both.Call(st.Context(t.Context()), word{strings.Repeat("long ", 500) + secret})
			require.Error(t, err)
			require.NoError(t, st.Close())

			_, base := serveWith(t, stored.New(store), streamer.Options{Redact: rules})
			ask := func(address, part string, header ...string) (int, string, http.Header) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, base+"/api/runs/r/calls/"+url.PathEscape(address)+"/"+part, http.NoBody)
				require.NoError(t, err)
				for i := 0; i+1 < len(header); i += 2 {
					req.Header.Set(header[i], header[i+1])
				}
				resp, err := http.DefaultClient.Do(req)
				require.NoError(t, err)
				defer resp.Body.Close()
				data, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				assert.NotContains(t, string(data), secret)
				return resp.StatusCode, string(data), resp.Header
			}
			var got word
			status, text, header := ask("agent/echo", "input")
			require.Equal(t, http.StatusOK, status, text)
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			assert.Equal(t, strings.Repeat("long ", 500)+"(redacted)", got.Text)
			assert.Equal(t, "application/json", header.Get("Content-Type"))
			assert.Contains(t, header.Get("Content-Security-Policy"), "sandbox")

			status, text, _ = ask("agent/echo", "output")
			require.Equal(t, http.StatusOK, status, text)
			require.NoError(t, json.Unmarshal([]byte(text), &got))
			assert.Equal(t, long+strings.Repeat("long ", 500)+"(redacted)", got.Text)
			status, part, _ := ask("agent/echo", "output", "Range", "bytes=100-109")
			assert.Equal(t, http.StatusPartialContent, status)
			assert.Equal(t, text[100:110], part)
			_, _, header = ask("agent/echo", "output?download=1")
			assert.Equal(t, `attachment; filename="output.json"`, header.Get("Content-Disposition"))

			status, text, _ = ask("agent/fail", "error")
			require.Equal(t, http.StatusOK, status)
			assert.Equal(t, "first line\nsecond line with (redacted)", text)

			for path, want := range map[[2]string]string{
				{"agent/nobody", "input"}:  "has no call",
				{"agent/fail", "output"}:   "no output",
				{"agent/echo", "error"}:    "no attempt of this call has failed",
				{"agent/echo", "thoughts"}: "a call has input, output and error",
			} {
				status, text, _ = ask(path[0], path[1])
				assert.Equal(t, http.StatusNotFound, status)
				assert.Contains(t, text, want)
			}
			status, text, _ = ask("agent//", "input")
			assert.Equal(t, http.StatusBadRequest, status, text)
			_, large := serveWith(t, huge{stored.New(store)}, streamer.Options{})
			resp, err := http.Get(large + "/api/runs/r/calls/agent%2Fecho/output")
			require.NoError(t, err)
			data, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
			assert.Contains(t, string(data), "the stored output has 67108865 bytes, and at most 67108864 are sent; to print it, use reprise show r --output agent/echo")

			_, nothing := serveWith(t, nil, streamer.Options{})
			resp, err = http.Get(nothing + "/api/runs/r/calls/agent/input")
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			assert.Equal(t, http.StatusNotFound, resp.StatusCode)
		})
	}
}

// huge is a source with artifacts that are too large to be sent.
type huge struct{ streamer.Source }

func (huge) Artifact(context.Context, string) ([]byte, error) { return make([]byte, 64<<20+1), nil }
