package streamer_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/streamer"
)

// viewer is a client's ResponseWriter, without a network.
type viewer struct {
	header http.Header
	open   chan struct{} // writes block until this channel is closed

	mu   sync.Mutex
	sent bytes.Buffer
}

func (v *viewer) Header() http.Header { return v.header }
func (v *viewer) WriteHeader(int)     {}
func (v *viewer) Flush()              {}

func (v *viewer) Write(p []byte) (int, error) {
	<-v.open
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.sent.Write(p)
}

// frame is an event received by a viewer.
type frame struct{ id, name, data string }

// frames returns the events received since the previous call.
func (v *viewer) frames() (all []frame) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for block := range strings.SplitSeq(v.sent.String(), "\n\n") {
		var f frame
		for line := range strings.Lines(block) {
			name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
			switch name {
			case "id":
				f.id = value
			case "event":
				f.name = value
			case "data":
				f.data = value
			}
		}
		if f != (frame{}) {
			all = append(all, f)
		}
	}
	v.sent.Reset()
	return all
}

// watch makes a viewer follow a path served by the handler until the test ends.
func watch(t *testing.T, h *streamer.Handler, path string, taking bool) *viewer {
	v := &viewer{header: make(http.Header), open: make(chan struct{})}
	if taking {
		close(v.open)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	req.RemoteAddr = "127.0.0.1:9"
	go func() {
		defer close(done)
		h.ServeHTTP(v, req)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
	return v
}

// deltas returns the deltas among the frames, one per line, and the IDs of the other frames.
func deltas(t *testing.T, frames []frame) (lines, ids []string) {
	for _, f := range frames {
		if f.name != "delta" {
			ids = append(ids, recordOf(f.id))
			continue
		}
		assert.Empty(t, f.id, "a delta does not move the cursor")
		var d streamer.Delta
		require.NoError(t, json.Unmarshal([]byte(f.data), &d))
		assert.Equal(t, "r", d.RunID)
		line := fmt.Sprintf("%s@%d %s", d.Address, d.Attempt, d.Part)
		if d.Part != live.PartBegin && d.Part != live.PartEnd {
			line += fmt.Sprintf(" %s%q", d.Name, d.Text)
		}
		if d.Whole {
			line += " whole"
		}
		lines = append(lines, line)
	}
	return lines, ids
}

func newHandler(t *testing.T, options streamer.Options) *streamer.Handler {
	h, err := streamer.New(nil, options)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, h.Close(context.WithoutCancel(t.Context()))) })
	return h
}

// producer returns a function that emits deltas of a call of the run "r".
func producer(h *streamer.Handler, address string, attempt int) func(part live.Part, text string) {
	a, err := record.ParseAddress(address)
	if err != nil {
		panic(err)
	}
	return func(part live.Part, text string) {
		h.PublishDelta(live.Delta{RunID: "r", Address: a, Attempt: attempt, Part: part, Text: text})
	}
}

func TestDeltasAreSentWhileACallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		f := newFeed("r", h.Publish)
		f.open()
		v := watch(t, h, "/events?run=r&deltas=true", true)
		other := watch(t, h, "/events?run=r", true)
		f.call("agent/model", record.StatusStarted)
		emit := producer(h, "agent/model", 0)
		emit(live.PartBegin, "")
		emit(live.PartReasoning, "Hm.")
		emit(live.PartText, "The answer ")
		pass(10 * time.Millisecond)
		lines, ids := deltas(t, v.frames())
		assert.Equal(t, []string{`agent/model@0 begin`, `agent/model@0 reasoning "Hm." whole`, `agent/model@0 text "The answer " whole`}, lines)
		assert.Equal(t, []string{"1-1", "1-2"}, ids)

		emit(live.PartText, "is ")
		emit(live.PartText, "forty-two.")
		pass(200 * time.Millisecond)
		lines, _ = deltas(t, v.frames())
		assert.Equal(t, []string{`agent/model@0 text "is forty-two."`}, lines, "joined")

		emit(live.PartEnd, "")
		f.call("agent/model", record.StatusCompleted)
		pass(200 * time.Millisecond)
		lines, ids = deltas(t, v.frames())
		assert.Equal(t, []string{`agent/model@0 end`}, lines)
		assert.Equal(t, []string{"1-3"}, ids)
		lines, ids = deltas(t, other.frames())
		assert.Empty(t, lines, "a client that did not ask gets no deltas")
		assert.Len(t, ids, 3)
	})
}

func TestARecordComesBeforeTheDeltasThatFollowIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		f := newFeed("r", h.Publish)
		f.open()
		v := watch(t, h, "/events?run=r&deltas=true", true)
		v.frames()
		for i := range 50 {
			name := fmt.Sprint("model", i)
			f.call(name, record.StatusStarted)
			producer(h, name, 0)(live.PartText, "a word")
			pass(time.Second)
			frames := v.frames()
			require.Len(t, frames, 3)
			require.Equal(t, []string{"started", "delta", "delta"}, []string{frames[0].name, frames[1].name, frames[2].name})
		}
	})
}

func TestDeltasAreAtMostTenASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		newFeed("r", h.Publish).open()
		v := watch(t, h, "/events?run=r&deltas=true", true)
		emit := producer(h, "agent/model", 0)
		var want strings.Builder
		for i := range 1000 {
			text := fmt.Sprintf("%d ", i)
			want.WriteString(text)
			emit(live.PartText, text)
			pass(time.Millisecond)
		}
		pass(time.Second)
		var got strings.Builder
		pieces := 0
		for _, f := range v.frames() {
			var d streamer.Delta
			require.NoError(t, json.Unmarshal([]byte(f.data), &d))
			got.WriteString(d.Text)
			if d.Part == live.PartText {
				pieces++
			}
		}
		assert.LessOrEqual(t, pieces, 12)
		assert.Greater(t, pieces, 8)
		assert.Equal(t, want.String(), got.String())
	})
}

func TestALateClientGetsTheTextSoFar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		newFeed("r", h.Publish).open()
		emit := producer(h, "agent/model", 0)
		emit(live.PartReasoning, strings.Repeat("r", 5000))
		emit(live.PartText, "It is ")
		v := watch(t, h, "/events?run=r&deltas=true", true)
		lines, _ := deltas(t, v.frames())
		require.Len(t, lines, 3)
		assert.Equal(t, `agent/model@0 text "It is " whole`, lines[2])

		emit(live.PartText, strings.Repeat("ä", 4096))
		v = watch(t, h, "/events?run=r&deltas=true", true)
		lines, _ = deltas(t, v.frames())
		require.Len(t, lines, 3)
		assert.Equal(t, `agent/model@0 reasoning "" whole`, lines[1], "the oldest text is dropped first")
		assert.Equal(t, fmt.Sprintf(`agent/model@0 text %q whole`, strings.Repeat("ä", 4096)), lines[2], "the last 8 KB are kept")
	})
}

func TestAnotherAttemptReplacesWhatWasShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		f := newFeed("r", h.Publish)
		f.open()
		v := watch(t, h, "/events?run=r&deltas=1", true)
		first, second := producer(h, "model", 0), producer(h, "model", 1)
		first(live.PartText, "torn")
		pass(time.Second)
		f.call("model", record.StatusFailed, func(r *record.Record) { r.WillRetry = true })
		pass(time.Second)
		second(live.PartBegin, "")
		first(live.PartText, "late")
		second(live.PartText, "whole")
		pass(time.Second)
		f.call("model", record.StatusFailed, func(r *record.Record) { r.WillRetry = true }) // a late record of the first attempt
		pass(time.Second)
		lines, _ := deltas(t, v.frames())
		assert.Equal(t, []string{
			`model@0 begin`, `model@0 text "torn" whole`, `model@0 end`,
			`model@1 begin`, `model@1 text "whole" whole`,
		}, lines)

		first(live.PartEnd, "")
		f.end(record.StatusInterrupted)
		pass(time.Second)
		lines, _ = deltas(t, v.frames())
		assert.Equal(t, []string{`model@1 end`}, lines, "no call is active in a run that has ended")
	})
}

func TestOnlyTheLatestProgressIsShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		newFeed("r", h.Publish).open()
		v := watch(t, h, "/events?run=r&deltas=1", true)
		emit := producer(h, "tool", 0)
		emit(live.PartProgress, "10 %")
		emit(live.PartProgress, "20 %")
		pass(time.Second)
		emit(live.PartProgress, "30 %")
		pass(time.Second)
		lines, _ := deltas(t, v.frames())
		assert.Equal(t, []string{`tool@0 begin`, `tool@0 progress "20 %" whole`, `tool@0 progress "30 %" whole`}, lines)
	})
}

// A client that does not read loses deltas, but no records, and no one waits for the client.
func TestAStalledClientLosesDeltasAndNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		f := newFeed("r", h.Publish)
		f.open()
		v := watch(t, h, "/events?run=r&deltas=true", false)
		emit := producer(h, "agent/model", 0)
		before := time.Now()
		for i := range 3000 {
			emit(live.PartText, fmt.Sprintf("%09d ", i))
			if i%10 == 0 {
				f.log(1)
			}
		}
		assert.Zero(t, time.Since(before))
		pass(time.Minute)
		close(v.open)
		pass(time.Second)
		lines, ids := deltas(t, v.frames())
		require.Len(t, ids, 301)
		assert.Equal(t, "1-301", ids[300])
		require.Len(t, lines, 2)
		assert.LessOrEqual(t, len(lines[1]), 8<<10+100)
		assert.Regexp(t, `000002999 " whole$`, lines[1])
	})
}

func TestASecretThatLiesOverTwoDeltasIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rules, err := redact.New("sk-planted-[0-9]{10}")
		require.NoError(t, err)
		h := newHandler(t, streamer.Options{Redact: rules})
		f := newFeed("r", h.Publish)
		f.open()
		v := watch(t, h, "/events?run=r&deltas=true", true)
		emit := producer(h, "agent/model", 0)
		emit(live.PartBegin, "")
		for _, text := range []string{"The key is sk-planted", "-0123456789", ", keep it.", strings.Repeat(" And on it goes.", 10)} {
			emit(live.PartText, text)
			pass(time.Second)
		}
		late := watch(t, h, "/events?run=r&deltas=true", true)
		emit(live.PartEnd, "")
		pass(time.Second)
		for _, one := range []*viewer{v, late} {
			frames := one.frames()
			assert.NotContains(t, fmt.Sprint(frames), "sk-planted")
			assert.Equal(t, "The key is (redacted), keep it."+strings.Repeat(" And on it goes.", 10), producedBy(t, frames))
		}
	})
}

// producedBy joins the texts of deltas.
func producedBy(t *testing.T, frames []frame) (text string) {
	t.Helper()
	for _, f := range frames {
		var d streamer.Delta
		if f.name == "delta" {
			require.NoError(t, json.Unmarshal([]byte(f.data), &d))
			text += d.Text
		}
	}
	return text
}

func TestDeltasAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		newFeed("r", h.Publish).open()
		h.PublishDelta(live.Delta{RunID: "unknown", Part: live.PartText, Text: "of a run that was not published"})
		for i := range 100 {
			a, err := record.ParseAddress(fmt.Sprintf("model#%d", i+2))
			require.NoError(t, err)
			for index := range 100 {
				h.PublishDelta(live.Delta{RunID: "r", Address: a, Part: live.PartToolCall, Index: index, Text: strings.Repeat("x", 1000)})
			}
		}
		v := watch(t, h, "/events?run=r&deltas=true", true)
		bytes, calls, texts := 0, 0, 0
		for _, f := range v.frames() {
			var d streamer.Delta
			require.NoError(t, json.Unmarshal([]byte(f.data), &d))
			bytes += len(d.Text)
			switch d.Part {
			case live.PartBegin:
				calls++
			case live.PartToolCall:
				texts++
			}
		}
		assert.Equal(t, 64, calls)
		assert.Equal(t, 64*64, texts)
		assert.Equal(t, 64*8<<10, bytes)
	})
}

func TestDeltasAreThoseOfOneRun(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	newFeed("r", h.Publish).open()
	for query, want := range map[string]string{
		"deltas=true":            "bad_request: deltas are sent only for named runs: use run=ID, or watch=ID in the stream of all runs",
		"run=r&deltas=maybe":     `bad_request: deltas is ["maybe"]: want a single value, true or false`,
		"run=r&deltas=1&deltas=": `bad_request: deltas is ["1" ""]: want a single value, true or false`,
	} {
		var got refusal
		assert.Equal(t, http.StatusBadRequest, get(t, server.URL+"/events?"+query, &got))
		assert.Equal(t, want, got.String())
	}
}

func TestAClientThatAsksGetsDeltas(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	emit := producer(h, "model", 0)
	emit(live.PartText, "Hello")
	client := streamer.Client{URL: server.URL, HTTPClient: through(t), Run: "r", Deltas: true, UntilEnd: true}
	var got []string
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		d, err := e.Delta()
		switch {
		case e.IsRecord():
			require.Error(t, err)
			got = append(got, e.Name)
		default:
			require.NoError(t, err)
			_, err = e.Record()
			require.Error(t, err)
			assert.Equal(t, "1-1", recordOf(e.ID), "a delta does not move the cursor")
			got = append(got, fmt.Sprint(d.Part, " ", d.Text, " ", d.Whole))
			if d.Part == live.PartText {
				f.end(record.StatusCompleted)
			}
		}
	}
	assert.Equal(t, []string{"run_started", "begin  false", "text Hello true", "run_completed"}, got)

	client.Run = ""
	for _, err := range client.Events(t.Context()) {
		var refused *streamer.StatusError
		require.ErrorAs(t, err, &refused)
		assert.Contains(t, err.Error(), "deltas are sent only for named runs")
	}
}

func TestDeltasAfterCloseAreDropped(t *testing.T) {
	h, err := streamer.New(nil, streamer.Options{})
	require.NoError(t, err)
	newFeed("r", h.Publish).open()
	require.NoError(t, h.Close(t.Context()))
	producer(h, "model", 0)(live.PartText, "x")
}

// In a service that shares its store with other processes, records are read from the store and may
// arrive later than deltas from the same opening.
func TestDeltasThatComeBeforeTheRecordOfTheOpeningAreShown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		var late []record.Record
		f := newFeed("r", func(r record.Record) { late = append(late, r) })
		f.at = time.Now()
		f.open()
		f.call("agent/model", record.StatusStarted)
		f.end(record.StatusInterrupted)
		for _, r := range late {
			h.Publish(r)
		}
		late = nil
		v := watch(t, h, "/events?run=r&deltas=true", true)
		v.frames()
		f.open()
		f.call("agent/model", record.StatusStarted)
		pass(10 * time.Millisecond)
		emit := producer(h, "agent/model", 0)
		emit(live.PartBegin, "")
		emit(live.PartText, "The answer")
		for _, r := range late {
			h.Publish(r)
		}
		pass(time.Second)
		lines, _ := deltas(t, v.frames())
		assert.Equal(t, []string{`agent/model@0 begin`, `agent/model@0 text "The answer" whole`}, lines)
		f.to = h.Publish
		f.at = time.Now()
		f.end(record.StatusInterrupted)
		pass(time.Second)
		lines, _ = deltas(t, v.frames())
		assert.Equal(t, []string{`agent/model@0 end`}, lines)
	})
}

// Each delta that is sent costs CPU time, so all clients together get a thousand per second.
func TestManyClientsGetTheirDeltasLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHandler(t, streamer.Options{})
		f := newFeed("r", h.Publish)
		f.open()
		f.call("agent/model", record.StatusStarted)
		var clients []*viewer
		for range 300 {
			clients = append(clients, watch(t, h, "/events?run=r&deltas=true", true))
		}
		clients[7].frames()
		emit := producer(h, "agent/model", 0)
		emit(live.PartBegin, "")
		for range 150 {
			emit(live.PartText, "word ")
			pass(20 * time.Millisecond)
		}
		text, pieces := "", 0
		for _, f := range clients[7].frames() {
			var d streamer.Delta
			require.Equal(t, "delta", f.name)
			require.NoError(t, json.Unmarshal([]byte(f.data), &d))
			if d.Part == live.PartText {
				text, pieces = text+d.Text, pieces+1
			}
		}
		assert.InDelta(t, 10, pieces, 1.5, "in three seconds")
		assert.Greater(t, len(text), 130*len("word "), "each client has the whole text")
	})
}
