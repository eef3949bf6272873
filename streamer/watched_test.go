package streamer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// told returns the run, the name and the text of each frame.
func told(t *testing.T, frames []frame) (all []string) {
	for _, f := range frames {
		var body struct {
			RunID string `json:"run_id"`
			Text  string
		}
		require.NoError(t, json.Unmarshal([]byte(f.data), &body))
		all = append(all, strings.TrimSpace(body.RunID+" "+f.name+" "+body.Text))
	}
	return all
}

// One stream has the deltas of many runs. With others=false it has no records of other runs.
func TestOneStreamHasTheDeltasOfManyRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{Authorize: func(req *http.Request) (streamer.Access, error) {
			return streamer.Access{Runs: func(id string) bool { return id != "secret" }}, nil
		}})
		only := watch(t, h, "/events?watch=a&watch=b&watch=secret&others=false", true)
		all := watch(t, h, "/events?watch=b", true)
		address, err := record.ParseAddress("model")
		require.NoError(t, err)
		for _, id := range []string{"a", "b", "c", "secret"} {
			f := newFeed(id, h.Publish)
			f.open()
			f.call("model", record.StatusStarted)
			h.PublishDelta(live.Delta{RunID: id, Address: address, Part: live.PartText, Text: "of " + id})
		}
		pass(10 * time.Millisecond)
		assert.Equal(t, []string{"a run_started", "a started", "b run_started", "b started", "a delta", "a delta of a", "b delta", "b delta of b"}, told(t, only.frames()))
		assert.Equal(t, []string{"a run_started", "a started", "b run_started", "b started", "c run_started", "c started", "b delta", "b delta of b"}, told(t, all.frames()))

		h.PublishDeletion(t.Context(), "c")
		h.PublishDelta(live.Delta{RunID: "b", Address: address, Part: live.PartText, Text: ", and on"})
		pass(200 * time.Millisecond)
		assert.Equal(t, []string{"b delta , and on"}, told(t, only.frames()))
		assert.ElementsMatch(t, []string{"b delta , and on", "c deleted"}, told(t, all.frames()))
	})
}

func TestWhatCannotBeWatchedIsRefused(t *testing.T) {
	_, server := serve(t, nil, streamer.Options{})
	many := strings.Repeat("watch=r&", 101)
	for query, want := range map[string]string{
		"watch=":                             `watch is "": want the ID of a run`,
		"watch=" + strings.Repeat("x", 1000): "want the ID of a run",
		many:                                 "watch names 101 runs: want at most 100",
		"others=maybe":                       `others is ["maybe"]: want a single value, true or false`,
		"run=r&watch=r":                      "watch and others are for the stream of all runs",
		"run=r&others=false":                 "watch and others are for the stream of all runs",
	} {
		var r refusal
		assert.Equal(t, http.StatusBadRequest, get(t, server.URL+"/events?"+query, &r), query)
		assert.Contains(t, r.String(), want)
	}
}

// TestACursorIsOfOneRun checks that no server accepts a run's cursor for a later run with the same
// ID.
func TestACursorIsOfOneRun(t *testing.T) {
	source := newShelf()
	_, first := serve(t, source, streamer.Options{})
	f := newFeed("r", source.put)
	f.open()
	f.log(9)
	w := connect(t, first.URL+"/events?run=r", "")
	_, id := seqs(t, w, 10)
	var body struct{ Cursor, All string }
	require.Equal(t, http.StatusOK, get(t, first.URL+"/api/runs/r", &body))
	assert.Equal(t, id, body.Cursor, "the snapshot has the same")
	require.Equal(t, http.StatusOK, get(t, first.URL+"/api/runs", &struct{ Cursor *string }{&body.Cursor}))
	assert.Equal(t, body.Cursor, body.All)

	f.log(1)
	got, _ := seqs(t, connect(t, first.URL+"/events?run=r", id), 11)
	assert.Equal(t, []uint64{11}, got)

	source.mu.Lock()
	delete(source.runs, "r")
	source.mu.Unlock()
	_, second := serve(t, source, streamer.Options{})
	refused := connect(t, first.URL+"/events?run=r", id)
	_, name, data := refused.event(t)
	assert.Equal(t, `deleted {"run_id":"r"}`, name+" "+data)
	_ = refused.Body.Close()

	anew := newFeed("r", source.put)
	anew.at = anew.at.Add(time.Hour)
	anew.open()
	anew.log(19)
	for _, server := range []string{first.URL, second.URL} {
		w := connect(t, server+"/events?run=r", id)
		_, name, data := w.event(t)
		assert.Equal(t, "reset", name)
		assert.Contains(t, data, "another run has this ID now")
		got, next := seqs(t, w, 20)
		assert.Len(t, got, 20)
		assert.NotEqual(t, strings.Split(id, ".")[0], strings.Split(next, ".")[0])
	}
}

// TestRecreatedRunIsAnnouncedToClientsOfAllRuns checks that these clients receive one event
// "deleted".
func TestRecreatedRunIsAnnouncedToClientsOfAllRuns(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{})
	f := newFeed("r", source.put)
	f.open()
	f.log(2)
	w := connect(t, server.URL+"/events", "")
	one := connect(t, server.URL+"/events?run=r", "")
	seqs(t, one, 3)
	source.mu.Lock()
	delete(source.runs, "r")
	source.mu.Unlock()
	anew := newFeed("r", source.put)
	anew.at = anew.at.Add(time.Hour)
	anew.open()
	h.PublishDeletion(t.Context(), "r")
	_, name, data := w.event(t)
	assert.Equal(t, fmt.Sprintf(`deleted {"run_id":"r","created_at":%q}`, anew.at.Format(time.RFC3339Nano)), name+" "+data)
	_, name, _ = one.event(t)
	assert.Contains(t, []string{"reset", "deleted"}, name, "one event deleted, or none if the records of the old run were still being read from the source")
	got, _ := seqs(t, one, 1)
	assert.Equal(t, []uint64{1}, got)
}
