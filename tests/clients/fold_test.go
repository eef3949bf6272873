package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// vector is a run, with the server's states of the run after each record.
type vector struct {
	Seed    uint64            `json:"seed"`
	Records []record.Record   `json:"records"`
	States  []json.RawMessage `json:"states"`
}

// TestPageFoldsAsTheLedgerDoes checks that the page, which folds records with its own JavaScript
// code, computes the same states as the server. Both fold runs that end in all possible ways,
// record by record, from the beginning of the run and from later states.
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
		v.Records = cancelled(v.Records)
		v.States = statesAfterEach(t, v.Records)
		require.NoError(t, encoder.Encode(v))
	}
	many := vector{Records: cancelled(manyQuestions(t))}
	many.Seed = uint64(len(many.Records)) - 2 // the page once loads the run just before the cancel
	many.States = statesAfterEach(t, many.Records)
	require.NoError(t, encoder.Encode(many))
	cmd := exec.CommandContext(t.Context(), node, "fold.mjs", pageModules(t))
	cmd.Stdin = &vectors
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}

// manyQuestions returns the records of a run in which more calls are waiting than the server lists.
func manyQuestions(t *testing.T) (records []record.Record) {
	t.Helper()
	add := func(r record.Record) {
		r.RunID, r.Seq, r.Generation = "many", uint64(len(records))+1, 1
		r.Time = time.Date(2026, 11, 20, 8, 0, len(records), 0, time.UTC)
		records = append(records, r)
	}
	add(record.Record{Kind: record.KindRun, Status: record.StatusStarted})
	for n := range 120 {
		address, err := record.ParseAddress(fmt.Sprintf("ask#%d", n+2))
		require.NoError(t, err)
		call := record.Record{Kind: record.KindTool, Address: address, Name: "ask", Status: record.StatusStarted}
		add(call)
		call.Status, call.Stage, call.Err = record.StatusAwaiting, record.StageHandler, &record.InterruptedError{Reason: record.InterruptAwait, Awaits: record.AwaitAnswer}
		if n%10 == 1 {
			call.Err = &record.InterruptedError{Reason: record.InterruptAwait, Awaits: record.AwaitTime}
		}
		add(call)
	}
	add(record.Record{Kind: record.KindRun, Status: record.StatusAwaiting})
	return records
}

// cancelled returns the records of a run. If the run has not ended, it adds the record of a cancel.
func cancelled(records []record.Record) []record.Record {
	last := records[len(records)-1]
	if last.Status != record.StatusAwaiting && last.Status != record.StatusInterrupted {
		return records
	}
	last.Seq++
	last.Status, last.Err = record.StatusCancelled, &record.InterruptedError{Reason: record.InterruptCancel, By: "ops"}
	return append(records, last)
}

// statesAfterEach returns the states of the run in the API, one after each of its records.
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

// pageModules copies the page's modules to a directory in which Node.js treats them as modules.
func pageModules(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join("..", "..", "streamer", "page"))))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"type": "module"}`), 0o600))
	return dir
}
