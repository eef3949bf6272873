package streamer_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// TestStreamOfARunThatIsNotThereYetWaitsForIt checks that a client may open the stream before
// starting the run. The client misses nothing, not even the first record, which is only in the
// source.
func TestStreamOfARunThatIsNotThereYetWaitsForIt(t *testing.T) {
	for name, source := range map[string]*shelf{"a source": newShelf(), "no source": nil} {
		t.Run(name, func(t *testing.T) {
			var from streamer.Source
			if source != nil {
				from = source
			}
			h, server := serve(t, from, streamer.Options{})
			resp, err := http.Get(server.URL + "/events?run=later")
			require.NoError(t, err)
			w := wrap(t, resp)
			w.retry(t)
			var said refusal
			assert.Equal(t, 404, get(t, server.URL+"/api/runs/later", &said), "waiting for a run must not create it")
			var all streamer.RunList
			require.Equal(t, 200, get(t, server.URL+"/api/runs", &all))
			assert.Empty(t, all.Runs)

			f := newFeed("later", h.Publish)
			if source != nil {
				f = newFeed("later", source.put)
				f.log(1) // for example, the input of a run that was queued
				f.to = func(r record.Record) {
					source.put(r)
					h.Publish(r)
				}
			}
			f.open()
			f.end(record.StatusCompleted)
			client := &streamer.Client{URL: server.URL, Run: "later", UntilEnd: true}
			var want []string
			for e, err := range client.Events(t.Context()) {
				require.NoError(t, err)
				want = append(want, e.ID)
			}
			for _, id := range want {
				got, _, _ := w.event(t)
				assert.Equal(t, id, got)
			}
		})
	}
}
