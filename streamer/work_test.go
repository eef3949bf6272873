package streamer_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// scheduled is a Starter with one program.
type scheduled struct{ streamer.Starter }

func (scheduled) Programs() []streamer.Program {
	return []streamer.Program{{
		Name: "cook", Version: "2", Versions: []string{"1", "2"}, Input: json.RawMessage(`{"type":"object"}`),
		Schedules: []streamer.Schedule{{Name: "lunch", When: "every 1h0m0s", Next: time.Unix(1e9, 0)}},
	}}
}

// crew is a source whose runs are open in two different workers.
type crew struct{ *shelf }

func (c crew) List(_ context.Context, q streamer.Query) (streamer.RunPage, error) {
	return streamer.PageOf([]streamer.RunInfo{
		{RunID: "a", Status: "running", Worker: "w1"},
		{RunID: "b", Status: "running", Worker: "w2"},
		{RunID: "c", Status: "running", Worker: "w2"},
		{RunID: "d", Status: "completed", Worker: "w3"},
	}, q)
}

// TestWorkIsServed checks that senders that are allowed to see all runs receive the queue, the
// workers, and the programs without the schemas of their inputs.
func TestWorkIsServed(t *testing.T) {
	some := false
	_, server := serve(t, crew{newShelf()}, streamer.Options{
		Starter: scheduled{}, Queue: func() streamer.Queue { return streamer.Queue{Queued: 5, Parked: 7, Open: 2, Limit: 10} },
		Authorize: func(*http.Request) (streamer.Access, error) {
			if some {
				return streamer.Access{Runs: func(string) bool { return true }}, nil
			}
			return streamer.Access{}, nil
		},
	})
	var work streamer.Work
	require.Equal(t, http.StatusOK, get(t, server.URL+"/api/work", &work))
	assert.Equal(t, &streamer.Queue{Queued: 5, Parked: 7, Open: 2, Limit: 10}, work.Queue)
	assert.Equal(t, []streamer.Worker{{Name: "w2", Runs: 2}, {Name: "w1", Runs: 1}}, work.Workers)
	assert.Equal(t, 3, work.Running)
	require.Len(t, work.Programs, 1)
	assert.Nil(t, work.Programs[0].Input)
	assert.Equal(t, "lunch", work.Programs[0].Schedules[0].Name)
	some = true
	assert.Equal(t, http.StatusForbidden, get(t, server.URL+"/api/work", new(refusal)))

	h, alone := serve(t, nil, streamer.Options{})
	newFeed("r", h.Publish).open()
	newFeed("s", h.Publish).end(record.StatusCompleted)
	work = streamer.Work{}
	require.Equal(t, http.StatusOK, get(t, alone.URL+"/api/work", &work))
	assert.Nil(t, work.Queue)
	assert.Equal(t, 1, work.Running)
	assert.Equal(t, []streamer.Worker{{Runs: 1}}, work.Workers)
}
