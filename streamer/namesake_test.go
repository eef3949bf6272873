package streamer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// deleted makes a source forget a run.
func (s *shelf) deleted(runID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.runs, runID)
}

// again is another run with the ID of f, which begins later.
func (f *feed) again() *feed {
	g := newFeed(f.runID, f.to)
	g.at = f.at.Add(1)
	return g
}

// TestCursorOfARunThatWasDeletedIsAReset, although the run that has its ID now
// has a record of the same generation and number.
func TestCursorOfARunThatWasDeletedIsAReset(t *testing.T) {
	for name, c := range map[string]struct{ restarted, published bool }{
		"while the server goes on":                          {},
		"while the server is restarted":                     {restarted: true},
		"while the server goes on, which has published it":  {published: true},
		"while the server is restarted, which publishes it": {restarted: true, published: true},
	} {
		t.Run(name, func(t *testing.T) {
			source := newShelf()
			h, server := serve(t, source, streamer.Options{})
			f := newFeed("r", source.put)
			if c.published {
				f.to = func(r record.Record) { source.put(r); h.Publish(r) }
			}
			f.open()
			f.log(9)
			_, id := seqs(t, connect(t, server.URL+"/events?run=r", ""), 10)
			_, cursor, err := (&streamer.Client{URL: server.URL}).State(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, id, cursor)
			again := connect(t, server.URL+"/events?run=r", id)
			again.retry(t)

			if c.restarted {
				h, server = serve(t, source, streamer.Options{})
				if c.published {
					f.to = func(r record.Record) { source.put(r); h.Publish(r) }
				}
			}
			source.deleted("r")
			g := f.again()
			g.open()
			g.call("fetch", record.StatusStarted)
			g.log(10)
			w := connect(t, server.URL+"/events?run=r", id)
			_, event, data := w.event(t)
			assert.Equal(t, "reset", event)
			assert.Contains(t, data, "another run")
			got, newer := seqs(t, w, 12)
			assert.Equal(t, count(1, 12), got, "it begins anew")
			assert.Equal(t, "1-12", plain(newer))
			assert.NotEqual(t, strings.Replace(id, "-10", "-12", 1), newer)
			if !c.restarted && c.published {
				_, event, _ = again.event(t)
				assert.Equal(t, "reset", event, "who is connected learns of it, too")
			}

			state, cursor, err := (&streamer.Client{URL: server.URL}).State(t.Context(), "r")
			require.NoError(t, err)
			assert.Equal(t, newer, cursor)
			assert.Equal(t, 1, state.Calls.Started, "nothing is added up over both")
			assert.EqualValues(t, 12, state.LastSeq)
			w = connect(t, server.URL+"/events?run=r", newer)
			w.retry(t)
			if c.published {
				g.log(1)
				got, _ = seqs(t, w, 13)
				assert.Equal(t, []uint64{13}, got, "the new cursor is good")
			}
		})
	}
}

// TestRunWhoseNamesakeWasKnownFromTheMiddleIsStreamed: its records are not taken
// for those that a crash took.
func TestRunWhoseNamesakeWasKnownFromTheMiddleIsStreamed(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.seq, f.generation = 10, 1
	f.open()
	f.log(2)
	w := connect(t, server.URL+"/events?run=r", "2-12")
	got, _ := seqs(t, w, 13)
	assert.Equal(t, []uint64{13}, got)
	late := newFeed("r", h.Publish) // what is published late is of the run that is known
	late.open()
	g := f.again()
	g.open()
	g.log(1)
	_, event, _ := w.event(t)
	assert.Equal(t, "reset", event)
	got, _ = seqs(t, w, 2)
	assert.Equal(t, count(1, 2), got)
}

// TestCursorWithoutATagIsGood: another publisher, such as that of streamer/r3labs,
// gives IDs of the generation and the number alone.
func TestCursorWithoutATagIsGood(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	f.log(3)
	got, id := seqs(t, connect(t, server.URL+"/events?run=r", "1-2"), 4)
	assert.Equal(t, []uint64{3, 4}, got)
	assert.NotEqual(t, fmt.Sprintf("1-%d", f.seq), id)
}
