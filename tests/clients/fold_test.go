package clients

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// vector is a run, and its state according to the server after each record.
type vector struct {
	Seed    uint64            `json:"seed"`
	Records []record.Record   `json:"records"`
	States  []json.RawMessage `json:"states"`
}

// TestPageFoldsAsTheLedgerDoes checks that the page, which folds records with its
// own code in JavaScript, computes the same states as the server. Runs that end in
// all possible ways are folded by both, record by record, from their beginning and
// from any later state.
func TestPageFoldsAsTheLedgerDoes(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("skipped: node is not installed")
	}
	var vectors bytes.Buffer
	encoder := json.NewEncoder(&vectors)
	for seed := range uint64(80) {
		v := vector{Seed: seed}
		synctest.Test(t, func(t *testing.T) { v.Records = testkit.Workshop(t, seed) })
		v.States = statesAfterEach(t, v.Records)
		require.NoError(t, encoder.Encode(v))
	}
	cmd := exec.CommandContext(t.Context(), node, "fold.mjs", pageModules(t))
	cmd.Stdin = &vectors
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

// statesAfterEach returns the state of the run in the API after each of its records.
func statesAfterEach(t *testing.T, records []record.Record) (states []json.RawMessage) {
	t.Helper()
	h, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	defer func() { require.NoError(t, h.Close(t.Context())) }()
	for i := range records {
		h.Publish(records[i])
		rr := httptest.NewRecorder()
		req := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/api/runs/"+records[i].RunID, nil)
		req.RemoteAddr = "127.0.0.1:1"
		h.ServeHTTP(rr, req)
		require.Equal(t, http.StatusOK, rr.Code, rr.Body)
		var body struct{ Run json.RawMessage }
		require.NoError(t, json.Unmarshal(rr.Body.Bytes(), &body))
		states = append(states, body.Run)
	}
	return states
}

// pageModules copies the modules of the page to a directory in which Node.js treats
// them as modules.
func pageModules(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "streamer", "page"))))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	return dir
}
