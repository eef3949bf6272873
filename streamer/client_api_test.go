package streamer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

func TestClientEndsWithItsRunIfItIsAsked(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r a/b?&", h.Publish)
	f.open()
	f.call("fetch", record.StatusStarted)
	f.end(record.StatusInterrupted)
	f.open()
	f.call("fetch", record.StatusFailed, func(r *record.Record) { r.Err, r.WillRetry = errors.New("down"), true })
	f.end(record.StatusAwaiting)
	f.open()
	f.call("fetch", record.StatusCompleted)
	f.end(record.StatusCompleted)
	f.log(1)
	for name, c := range map[string]struct {
		client streamer.Client
		want   []string
	}{
		"all":      {streamer.Client{}, []string{"run_started", "started", "run_interrupted", "run_started", "failed", "run_paused", "run_started", "completed", "run_completed"}},
		"types":    {streamer.Client{Types: []record.Kind{record.KindTool}}, []string{"started", "failed", "completed"}},
		"statuses": {streamer.Client{Statuses: []record.Status{record.StatusFailed, record.StatusInterrupted}}, []string{"run_interrupted", "failed"}},
		"both":     {streamer.Client{Types: []record.Kind{record.KindRun}, Statuses: []record.Status{record.StatusStarted}, After: "1-2"}, []string{"run_started", "run_started"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.client.URL, c.client.Run, c.client.UntilEnd = server.URL, f.runID, true
			var names []string
			for e, err := range c.client.Events(t.Context()) {
				require.NoError(t, err)
				names = append(names, e.Name)
				rec, err := e.Record()
				require.NoError(t, err)
				assert.Equal(t, f.runID, rec.RunID)
				assert.Equal(t, recordOf(e.ID), fmt.Sprintf("%d-%d", rec.Generation, rec.Seq))
			}
			assert.Equal(t, c.want, names)
		})
	}
}

func TestEventsThatAreNotRecordsSaySo(t *testing.T) {
	for _, name := range []string{"gap", "reset", "unreadable", "deleted", "stopping", "delta", "elsewhere"} {
		_, err := streamer.Event{Name: name, Data: []byte("{}")}.Record()
		assert.ErrorContains(t, err, "has no record")
	}
	_, err := streamer.Event{Name: "started", Data: []byte("{")}.Record()
	assert.Error(t, err)
}

func TestClientReadsRunsAndContinuesAfterThem(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	f.call("fetch", record.StatusStarted)
	c := &streamer.Client{URL: server.URL + "/"}
	list, err := c.Runs(t.Context(), 0)
	require.NoError(t, err)
	require.Len(t, list.Runs, 1)
	assert.Equal(t, map[string]int{"running": 1}, list.Counts)
	assert.Equal(t, "fetch", list.Runs[0].Current.Address.String())
	state, cursor, err := c.State(t.Context(), "r")
	require.NoError(t, err)
	assert.Equal(t, list.Runs[0].LastSeq, state.LastSeq)

	f.log(1)
	for _, c := range []streamer.Client{{URL: server.URL, After: list.Cursor}, {URL: server.URL, Run: "r", After: cursor}} {
		for e, err := range c.Events(t.Context()) {
			require.NoError(t, err)
			assert.Equal(t, "recorded", e.Name)
			break
		}
	}
	_, _, err = c.State(t.Context(), "other")
	require.ErrorIs(t, err, streamer.ErrNotFound)
	_, err = c.Runs(t.Context(), -1)
	var refused *streamer.StatusError
	require.ErrorAs(t, err, &refused)
	assert.Equal(t, http.StatusBadRequest, refused.StatusCode())
}

// remembering is a control that remembers what it was asked to do.
type remembering struct {
	said []string
	err  error
}

func (r *remembering) Interrupt(_ context.Context, runID string, stop streamer.Stop) error {
	r.said = append(r.said, fmt.Sprintf("interrupt %s by %s: %s", runID, stop.By, stop.Message))
	return r.err
}

func (r *remembering) Cancel(_ context.Context, runID string, stop streamer.Stop) error {
	r.said = append(r.said, fmt.Sprintf("cancel %s by %s: %s", runID, stop.By, stop.Message))
	return r.err
}

func (r *remembering) Signal(_ context.Context, runID string, s streamer.Signal) error {
	r.said = append(r.said, fmt.Sprintf("signal %s %s %s by %s: %s", runID, s.Name, s.ID, s.By, s.Value))
	return r.err
}

func (r *remembering) Answer(_ context.Context, runID, question, by string, value json.RawMessage) error {
	r.said = append(r.said, fmt.Sprintf("answer %s %s by %s: %s", runID, question, by, value))
	return r.err
}

func TestClientAnswersInterruptsAndCancels(t *testing.T) {
	control := new(remembering)
	h, server := serve(t, nil, streamer.Options{Control: control})
	newFeed("r", h.Publish).open()
	c := &streamer.Client{URL: server.URL}
	require.NoError(t, c.Answer(t.Context(), "r", "agent/refund?1", "ann", map[string]any{"ok": true}))
	require.NoError(t, c.Interrupt(t.Context(), "r", streamer.Stop{By: "ann", Message: "enough"}))
	require.NoError(t, c.Cancel(t.Context(), "r", streamer.Stop{Message: "for good"}))
	require.NoError(t, c.Signal(t.Context(), "r", streamer.Signal{Name: "called", Value: json.RawMessage(`7`), ID: "mail-1"}))
	require.ErrorIs(t, c.Signal(t.Context(), "r", streamer.Signal{Value: json.RawMessage(`7`)}), streamer.ErrInvalid)
	require.ErrorIs(t, c.Signal(t.Context(), "other", streamer.Signal{Name: "called", Value: json.RawMessage(`7`)}), streamer.ErrNotFound)
	assert.Equal(t, []string{`answer r agent/refund?1 by ann: {"ok":true}`, "interrupt r by ann: enough", "cancel r by dashboard: for good", "signal r called mail-1 by dashboard: 7"}, control.said)
	control.err = fmt.Errorf("%w: it was answered before", streamer.ErrConflict)
	err := c.Answer(t.Context(), "r", "agent/refund?1", "", 1)
	require.ErrorIs(t, err, streamer.ErrConflict)
	assert.ErrorContains(t, err, "it was answered before")
	require.ErrorIs(t, c.Interrupt(t.Context(), "nobody", streamer.Stop{}), streamer.ErrNotFound)
	assert.ErrorContains(t, c.Answer(t.Context(), "r", "q", "", func() {}), "streamer: encode the answer: json:")
	for _, bad := range []string{"", "localhost:80", "ftp://x/", "http:///x", "http://a b/"} {
		assert.ErrorContains(t, (&streamer.Client{URL: bad}).Interrupt(t.Context(), "r", streamer.Stop{}), "Client.URL is", bad)
		for _, err := range (&streamer.Client{URL: bad, MaxDelay: time.Nanosecond}).Events(t.Context()) {
			assert.ErrorContains(t, err, "Client.URL is", bad)
		}
	}
}
