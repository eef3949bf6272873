package streamer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/record/redact"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/vocabulary"
)

var bothVocabularies = streamer.Vocabularies{"noetl": vocabulary.NoETL, "argyll": vocabulary.Argyll}

// struggle publishes a run in which a call fails twice, and for good the second time.
func struggle(f *feed) {
	f.open()
	f.call("fetch", record.StatusStarted)
	down := func(r *record.Record) { r.Err, r.WillRetry = errors.New("down"), true }
	f.call("fetch", record.StatusFailed, down)
	f.call("fetch", record.StatusRetrying, down)
	again := func(r *record.Record) { r.Attempt = 1 }
	f.call("fetch", record.StatusStarted, again)
	f.log(1) // no vocabulary has an event for this record
	f.call("fetch", record.StatusFailed, again, func(r *record.Record) { r.Err, r.Reason = errors.New("down"), record.ReasonExhausted })
	f.call("other", record.StatusStarted)
	f.call("other", record.StatusCompleted)
	f.publish(record.Record{Kind: record.KindRun, Status: record.StatusFailed, Err: errors.New("down")})
}

// said is an event that was received on a stream.
type said struct{ id, name, data string }

// words reads events up to and including one with the name last.
func (w *wire) words(t testing.TB, last string) (all []said) {
	t.Helper()
	for {
		id, name, data := w.event(t)
		require.NotContains(t, []string{"gap", "reset"}, name, data)
		if name == "cursor" {
			continue
		}
		if all = append(all, said{id, name, data}); name == last {
			return all
		}
	}
}

func TestEventsAreInTheWordsOfAnotherSystem(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Vocabularies: bothVocabularies, Redact: redact.Func(func(s string) string { return strings.ReplaceAll(s, "down", "****") })})
	var records []record.Record
	f := newFeed("r", h.Publish, func(r record.Record) { records = append(records, r) })
	struggle(f)
	for name, last := range map[string]string{"noetl": "execution_failed", "argyll": "work_succeeded"} {
		t.Run(name, func(t *testing.T) {
			var want []string
			for _, r := range records {
				for _, e := range bothVocabularies[name](r) {
					data, err := json.Marshal(e)
					require.NoError(t, err)
					want = append(want, e.Name+" "+strings.ReplaceAll(string(data), "down", "****"))
				}
			}
			var got []string
			for _, e := range connect(t, server.URL+"/events?run=r&vocabulary="+name, "").words(t, last) {
				got = append(got, e.name+" "+e.data)
			}
			assert.Equal(t, want, got)
			assert.Greater(t, len(got), 5)
		})
	}
	names := func(query string) (names []string) {
		for _, e := range connect(t, server.URL+"/events?run=r&vocabulary=noetl&"+query, "").words(t, "step_completed") {
			names = append(names, e.name)
		}
		return names
	}
	assert.Equal(t, []string{"action_completed", "step_completed"}, names("status=completed"), "records are still selected by their type")
}

// The client gets the rest of the events from the stream of one run and from that of all runs, from
// memory and from a source.
func TestAClientThatWasCutOffBetweenTheEventsOfARecordGetsTheRest(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{Vocabularies: bothVocabularies})
	all := connect(t, server.URL+"/events?vocabulary=noetl", "")
	all.retry(t)
	struggle(newFeed("r", source.put, h.Publish))
	_, later := serve(t, source, streamer.Options{Vocabularies: bothVocabularies})
	one := connect(t, server.URL+"/events?run=r&vocabulary=noetl", "").words(t, "execution_failed")
	everything := all.words(t, "execution_failed")
	require.Len(t, everything, len(one))
	for at, c := range map[string][]said{
		server.URL + "/events?vocabulary=noetl":       everything,
		server.URL + "/events?vocabulary=noetl&run=r": one,
		later.URL + "/events?vocabulary=noetl&run=r":  one,
	} {
		ids, parts := map[string]bool{}, 0
		for i, e := range c[:len(c)-1] {
			assert.False(t, ids[e.id], "two events have the ID %s", e.id)
			ids[e.id] = true
			if strings.Count(e.id, "-") == 2 {
				parts++
			}
			assert.Equal(t, c[i+1:], connect(t, at, e.id).words(t, "execution_failed"), "after %s of %s", e.id, at)
		}
		assert.Equal(t, 3, parts)
	}
	// A cursor with a part is valid without a vocabulary, too.
	got, _ := seqs(t, connect(t, server.URL+"/events?run=r", one[len(one)-3].id), 10)
	assert.NotEmpty(t, got)
}

func TestTheRestOfARecordThatNobodyHasIsAGap(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Vocabularies: bothVocabularies, History: 4})
	f := newFeed("r", h.Publish)
	struggle(f)
	_, name, data := connect(t, server.URL+"/events?run=r&vocabulary=noetl", "1-3-1").event(t)
	assert.Equal(t, "gap", name, data)
}

func TestAUsersVocabularyBreaksNoStream(t *testing.T) {
	words := vocabulary.Vocabulary(func(r record.Record) []vocabulary.Event {
		switch r.Address.String() {
		case "panics":
			panic("oh, a secret")
		case "lines":
			return []vocabulary.Event{{Name: "a\nid: 7\r\n\x00\nb\xff"}}
		case "func":
			return []vocabulary.Event{{Name: "func", Fields: map[string]any{"f": func() {}}}}
		case "long":
			return []vocabulary.Event{{Name: "long", Fields: map[string]any{"f": strings.Repeat("x", 1<<20)}}}
		}
		return []vocabulary.Event{{Name: "other", Fields: map[string]any{"n": r.Seq}}}
	})
	h, server := serve(t, nil, streamer.Options{Vocabularies: streamer.Vocabularies{"mine": words}})
	f := newFeed("r", h.Publish)
	f.open()
	var want []string
	for _, c := range []struct{ name, event, data string }{
		{"panics", "unsaid", `{"event_type":"unsaid","message":"the vocabulary panicked"}`},
		{"lines", "a id: 7 b?", `{"event_type":"a id: 7 b?"}`},
		{"func", "func", `{"event_type":"func","truncated":"the event is not JSON: json: unsupported type: func()"}`},
		{"long", "long", `{"event_type":"long","truncated":"the event is too long"}`},
		{"last", "other", `{"event_type":"other","n":6}`},
	} {
		f.call(c.name, record.StatusStarted)
		want = append(want, c.event+" "+c.data)
	}
	w := connect(t, server.URL+"/events?run=r&vocabulary=mine", "")
	_, name, _ := w.event(t)
	assert.Equal(t, "other", name)
	for n, line := range want {
		id, name, data := w.event(t)
		assert.Equal(t, line, name+" "+data)
		assert.Equal(t, fmt.Sprint("1-", n+2), recordOf(id))
	}
	var said refusal
	require.Equal(t, 400, get(t, server.URL+"/events?vocabulary=noetl", &said))
	assert.Contains(t, said.Error.Message, `vocabulary is ["noetl"]: want one of ["mine"]`)
	_, without := serve(t, nil, streamer.Options{})
	require.Equal(t, 400, get(t, without.URL+"/events?vocabulary=noetl", &said))
	assert.Contains(t, said.Error.Message, "this server has no vocabularies")
	for want, v := range map[string]streamer.Vocabularies{
		`the name "a b"`: {"a b": words},
		`the name ""`:    {"": words},
		`nil for "nil"`:  {"nil": nil},
	} {
		_, err := streamer.New(nil, streamer.Options{Vocabularies: v})
		assert.ErrorContains(t, err, want)
	}
}
