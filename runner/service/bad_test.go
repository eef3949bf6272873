package service

import (
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors/conversation"
	"github.com/reprise-go/reprise/runner"
)

func TestSignalsThatARunCannotTakeAreRefused(t *testing.T) {
	url, _ := served(t, Options{}, register)
	for id, c := range map[string]struct{ program, end string }{
		"completed": {"echo", "run_completed"}, "failed": {"fail", "run_failed"}, "cancelled": {"ask", "run_paused"},
	} {
		status, body := do(t, http.MethodPost, url+"api/runs", `{"program":"`+c.program+`","run_id":"`+id+`","input":{"text":"hi"}}`)
		require.Equal(t, 201, status, body)
		until(t, url, id, c.end)
	}
	status, body := do(t, http.MethodPost, url+"api/runs/cancelled/cancel", `{}`)
	require.Equal(t, 200, status, body)
	until(t, url, "cancelled", "run_cancelled")
	for _, c := range []struct {
		run, body string
		status    int
		reason    string
	}{
		{"completed", `{"name":"called","value":1}`, 409, "it has ended: it is completed"},
		{"failed", `{"name":"called","value":1}`, 409, "it has ended: it is failed"},
		{"cancelled", `{"name":"called","value":1}`, 409, "cancelled"},
		{"nobody", `{"name":"called","value":1}`, 404, ""},
		{"completed", `{"name":"","value":1}`, 400, "name"},
		{"completed", `{"name":"called"}`, 400, "value"},
		{"completed", `{"name":"called","value":1,"to":"x"}`, 400, "to"},
		{"completed", `{"name":"` + strings.Repeat("n", 1000) + `","value":1}`, 400, "name"},
	} {
		for end := false; !end; { // the end of a run is shown a moment before it is stored
			status, body = do(t, http.MethodPost, url+"api/runs/"+c.run+"/signal", c.body)
			end = status != http.StatusOK
		}
		assert.Equal(t, c.status, status, "%s %s: %s", c.run, c.body, body)
		assert.Contains(t, body, c.reason, "%s %s", c.run, c.body)
	}
}

func TestThreadsWithOddNamesAreRefused(t *testing.T) {
	address, _ := served(t, Options{Thread: "assistant"}, func(r *runner.Runner) error {
		runner.Register(r, conversation.NewProgram(r.Store(), assistant(new(atomic.Int64))))
		return nil
	})
	for _, name := range []string{
		"..", ".", "../x", "a/b", `a\b`, "a b", "a\nb", "a\x00b", "-a", "a%b", "ä", "日本", "\xff", strings.Repeat("a", 124), strings.Repeat("a", 5000), "a:b", "CON", "*", "a?b",
	} {
		path := address + "api/threads/" + url.PathEscape(name)
		status, body := do(t, http.MethodPost, path, `{"text":"hi"}`)
		if status == http.StatusCreated { // the name is valid
			status, _ = do(t, http.MethodGet, path, "")
			assert.Equal(t, 200, status, "%q", name)
			continue
		}
		assert.Contains(t, []int{400, 404, 405, 414}, status, "%q: %s", name, body)
		assert.NotContains(t, body, "panic", "%q", name)
		assert.NotEmpty(t, body, "%q", name)
	}
	status, body := do(t, http.MethodGet, address+"api/runs", "")
	require.Equal(t, 200, status)
	assert.NotContains(t, body, "..")
}

func TestServeNeedsPrograms(t *testing.T) {
	require.EqualError(t, Serve(t.Context(), Options{}, nil), "service: register is nil; it registers the programs of the service")
}
