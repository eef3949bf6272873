package service

import (
	"context"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/streamer"
)

func TestRefusalSaysWhetherTheTokenIsWrongOrMayOnlyRead(t *testing.T) {
	path, token := filepath.Join(t.TempDir(), "tokens"), base64.StdEncoding.EncodeToString(make([]byte, 20))
	require.NoError(t, os.WriteFile(path, []byte("board "+token+" read\n"), 0o600))
	authorize, err := Tokens(path)
	require.NoError(t, err)
	url, _ := served(t, Options{Streamer: streamer.Options{Authorize: authorize}}, register)
	for _, c := range []struct {
		token, path string
		status      int
		want        string
	}{
		{token, "api/runs", 403, "you may look at runs, but not start them"},
		{token, "api/threads/ann", 403, "you may read threads, but not send messages"},
		{token + "x", "api/runs", 401, "the token or password in the header Authorization is not valid"},
		{"", "api/runs", 401, "sign in first"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+c.path, http.NoBody)
		require.NoError(t, err)
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		status, body := send(t, req)
		assert.Equal(t, c.status, status, body)
		assert.Contains(t, body, c.want)
	}
}

// TestCancelOfAPausedRunSaysThatItsCallsMustBeCompensated: the run is not cancelled until its calls
// have been compensated.
func TestCancelOfAPausedRunSaysThatItsCallsMustBeCompensated(t *testing.T) {
	gate := make(chan struct{})
	book := decorators.Tool("book", "", func(context.Context, ticket) (string, error) { return "seat", nil }).
		Compensate(func(context.Context, ticket, string) error { <-gate; return nil })
	url, _ := served(t, Options{}, func(r *runner.Runner) error {
		runner.Register(r, decorators.Agent("trip", "", func(ctx context.Context, in ticket) (string, error) {
			if _, err := book.Call(ctx, in); err != nil {
				return "", err
			}
			return core.Await[string](ctx, "go on?")
		}), runner.WithCompensations(book))
		return nil
	})
	startRun(t, url, "trip", "a")
	until(t, url, "a", "run_paused")
	for _, address := range []string{"trip/book", "trip%2Fbook"} {
		status, body := do(t, "GET", url+"api/runs/a/calls/"+address+"/output", "")
		assert.Equal(t, 200, status, body)
		assert.Equal(t, `"seat"`, body)
	}
	status, body := do(t, "GET", url+"api/runs/a/calls/trip/book", "") // clients do not send what follows a #
	assert.Equal(t, 404, status)
	assert.Contains(t, body, `a call has input, output and error, but no \"book\"; in an address, write # as %23`)

	status, body = do(t, "POST", url+"api/runs/a/cancel", `{"by":"ann"}`)
	assert.Equal(t, 202, status, body)
	assert.JSONEq(t, `{"ok":true,"stopping":true}`, body)
	require.Eventually(t, func() bool { // for a moment, the page may show the run as it was before the cancel
		_, body := do(t, "GET", url+"api/runs/a", "")
		return strings.Contains(body, `"by":"ann"`)
	}, time.Minute, 10*time.Millisecond)
	close(gate)
	until(t, url, "a", "run_cancelled")
}
