package streamer_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/streamer"
)

func TestRecordsThatACrashHasTakenAreForgottenByAHandlerThatOutlivesIt(t *testing.T) {
	for name, source := range map[string]*shelf{"kept alone": nil, "with a source": newShelf()} {
		t.Run(name, func(t *testing.T) {
			h, server := serve(t, nil, streamer.Options{})
			f := newFeed("r", h.Publish)
			if source != nil {
				h, server = serve(t, source, streamer.Options{})
				f = newFeed("r", source.put, h.Publish)
			}
			f.open()
			f.log(9)
			stayed := connect(t, server.URL+"/events?run=r", "")
			_, id := seqs(t, stayed, 10)
			if source != nil {
				source.lose("r", 6)
			}
			f.seq = 6
			f.open()
			f.log(1)

			_, event, _ := stayed.event(t)
			assert.Equal(t, "reset", event)
			got, newer := seqs(t, stayed, 8)
			assert.Equal(t, count(1, 8), got, "one reset, then the stream without the lost records")
			assert.NotEqual(t, id, newer)

			got, _ = seqs(t, connect(t, server.URL+"/events?run=r", ""), 8)
			assert.Equal(t, count(1, 8), got)

			again := connect(t, server.URL+"/events?run=r", id)
			_, event, _ = again.event(t)
			assert.Equal(t, "reset", event)
			got, _ = seqs(t, again, 8)
			assert.Equal(t, count(1, 8), got)

			var one struct{ Records []struct{ Seq uint64 } }
			assert.Equal(t, 200, get(t, server.URL+"/api/runs/r", &one))
			var shown []uint64
			for _, r := range one.Records {
				shown = append(shown, r.Seq)
			}
			assert.Equal(t, count(1, 8), shown)
		})
	}
}

func TestRunThatStartsAgainForgetsTheOneBefore(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{History: 5})
	f := newFeed("r", h.Publish)
	f.open()
	f.log(9)
	stayed := connect(t, server.URL+"/events?run=r", fmt.Sprintf("%d-%d", f.generation, f.seq))
	stayed.retry(t)
	f.seq, f.generation = 0, 0 // another run with the same ID and generation
	f.open()
	f.log(1)
	_, name, _ := stayed.event(t)
	assert.Equal(t, "reset", name)
	seqs(t, stayed, 2)
	got, _ := seqs(t, connect(t, server.URL+"/events?run=r", ""), 2)
	assert.Equal(t, count(1, 2), got)
	f.log(8) // more events than the handler keeps
	_, event, data := connect(t, server.URL+"/events?run=r", "").event(t)
	assert.Equal(t, "gap", event)
	assert.JSONEq(t, `{"run_id":"r","missed":5}`, data)
}

// The records of the new run must not be mistaken for records that were lost in a crash.
func TestRunWhoseNamesakeWasKnownFromTheMiddleIsStreamed(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.seq, f.generation = 10, 1
	f.open()
	f.log(2)
	w := connect(t, server.URL+"/events?run=r", "2-12")
	got, _ := seqs(t, w, 13)
	assert.Equal(t, []uint64{13}, got)
	newFeed("r", h.Publish).open() // seen as a late record of the known run
	again := newFeed("r", h.Publish)
	again.at = f.at.Add(1)
	again.open()
	again.log(1)
	_, event, _ := w.event(t)
	assert.Equal(t, "reset", event)
	got, _ = seqs(t, w, 2)
	assert.Equal(t, count(1, 2), got)
}

func TestRecordsThatArePublishedTwiceAreStreamedOnce(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish, h.Publish) // once by the run, and once by a follower of its store
	w := connect(t, server.URL+"/events", "")
	w.retry(t)
	f.open()
	f.log(1)
	f.open()
	f.log(1)
	got, _ := seqs(t, w, 4)
	assert.Equal(t, count(1, 4), got)
}
