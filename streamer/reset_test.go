package streamer_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/streamer"
)

func TestResetMovesTheCursorToTheBeginning(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	f.log(5)
	w := connect(t, server.URL+"/events?run=r&type=run", "")
	seqs(t, w, 1)
	f.seq = 3 // a crash lost the last records, none of which this client had selected
	f.open()
	id, name, _ := w.event(t)
	assert.Equal(t, "reset", name)
	_ = w.Body.Close()

	got, _ := seqs(t, connect(t, server.URL+"/events?run=r&type=run", id), 4)
	assert.Equal(t, []uint64{1, 4}, got, "the client is sent all records again")
}
