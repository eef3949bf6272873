package streamer_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// A closingShelf has runs that have not been closed yet.
type closingShelf struct{ *shelf }

func (s closingShelf) Run(ctx context.Context, runID string) (streamer.RunInfo, error) {
	info, err := s.shelf.Run(ctx, runID)
	info.Status = "running"
	return info, err
}

// A client that has read the event "run_paused" must not be told that the run is running, because
// the client would then wait for another event.
func TestARunThatIsBeingClosedHasTheStatusOfItsLastRecord(t *testing.T) {
	source := closingShelf{newShelf()}
	h, server := serve(t, source, streamer.Options{})
	f := newFeed("r", func(r record.Record) { source.put(r); h.Publish(r) })
	f.open()
	client := streamer.Client{URL: server.URL}
	status := func() string {
		state, _, err := client.State(t.Context(), "r")
		require.NoError(t, err)
		return state.Status
	}
	assert.Equal(t, "running", status())
	f.end(record.StatusAwaiting)
	assert.Equal(t, "paused", status())
	f.open()
	assert.Equal(t, "running", status())
}
