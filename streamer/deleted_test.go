package streamer_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// Two watchers of a store publish the records and the deletions.
func TestRecordThatIsPublishedAfterItsRunWasDeletedIsIgnored(t *testing.T) {
	source := newShelf()
	source.open = true
	h, server := serve(t, source, streamer.Options{})
	f := newFeed("r", source.put, h.Publish)
	f.open()
	f.call("agent", record.StatusStarted)
	delete(source.runs, "r")
	h.PublishDeletion(t.Context(), "r")
	late := newFeed("r", h.Publish)
	late.seq, late.generation, late.at = f.seq, f.generation, f.at
	late.log(2)
	var list streamer.RunList
	require.Equal(t, http.StatusOK, get(t, server.URL+"/api/runs", &list))
	assert.Empty(t, list.Runs)

	again := newFeed("r", source.put, h.Publish)
	again.open()
	again.log(1)
	require.Equal(t, http.StatusOK, get(t, server.URL+"/api/runs", &list))
	require.Len(t, list.Runs, 1)
	assert.Equal(t, uint64(2), list.Runs[0].LastSeq)
}
