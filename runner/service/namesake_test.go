package service

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A client resumes with the cursor of a run that was deleted and replaced by another run with the
// same ID. The new run's first record, which holds its input, is stored by the runner and not
// published.
func TestCursorOfADeletedRunIsNotValidForItsNamesake(t *testing.T) {
	store := memstore.New()
	url, _ := served(t, Options{Store: store}, func(r *runner.Runner) error {
		runner.Register(r, decorators.Agent("echo", "", func(_ context.Context, in ticket) (string, error) { return in.Text, nil }))
		return nil
	})
	start := func(text string) {
		status, body := do(t, "POST", url+"api/runs", `{"program":"echo","run_id":"x","input":{"text":"`+text+`"}}`)
		require.Equal(t, 201, status, body)
		until(t, url, "x", "run_completed")
	}
	// read resumes after the ID, and returns the IDs and names of the events up to and including
	// the event named last.
	read := func(after, last string, then func()) (ids, names []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"events?run=x", http.NoBody)
		require.NoError(t, err)
		req.Header.Set("Last-Event-ID", after)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		for lines := bufio.NewReader(resp.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				t.Errorf("after %s, there is no event %s: %v", after, last, err)
				return ids, names
			}
			line = strings.TrimSuffix(line, "\n")
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				ids = append(ids, id)
				if names[len(names)-1] == last {
					return ids, names
				}
				if names[len(names)-1] == "run_completed" && then != nil {
					then()
					then = nil
				}
			} else if name, ok := strings.CutPrefix(line, "event: "); ok {
				names = append(names, name)
			}
		}
	}
	start("first")
	ids, names := read("", "deleted", func() { require.NoError(t, store.Delete(t.Context(), "x")) })
	require.Contains(t, names, "run_completed")
	start("second")
	for _, id := range ids[1 : len(ids)-1] {
		_, names := read(id, "run_completed", nil)
		assert.Contains(t, names, "reset", "after %s", id)
		assert.Contains(t, names, "run_started")
	}
}
