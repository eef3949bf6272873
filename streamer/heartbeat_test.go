package streamer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// TestNothingButEventsEndsWithAnEmptyLine protects clients that treat every empty line as the end
// of an event.
func TestNothingButEventsEndsWithAnEmptyLine(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Heartbeat: time.Millisecond})
	f := newFeed("r", h.Publish)
	f.open()
	f.log(1)
	w := connect(t, server.URL+"/events?run=r&status=failed", "")
	var sent strings.Builder
	for comments := 0; !strings.Contains(sent.String(), "event: failed\n"); {
		line, err := w.lines.ReadString('\n')
		require.NoError(t, err)
		sent.WriteString(line)
		if line == ":\n" {
			if comments++; comments == 5 {
				f.call("a", record.StatusFailed)
			}
		}
	}
	blocks := strings.Split(sent.String(), "\n\n")
	assert.Contains(t, blocks[0], "event: cursor\n", "events that were not selected")
	for _, block := range blocks {
		assert.Regexp(t, `(?m)^data: `, block)
	}
}

func TestHeartbeatComesWhileNothingThatHappensIsPicked(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Heartbeat: 20 * time.Millisecond})
	f := newFeed("r", h.Publish)
	f.open()
	w := connect(t, server.URL+"/events?run=r&status=failed", "")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Millisecond) // far more often than the heartbeat
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				f.log(1)
			}
		}
	}()
	var ids []string
	for len(ids) < 3 {
		if id := w.block(t)["id"]; id != "" {
			ids = append(ids, id)
		}
	}
	close(stop)
	<-stopped
	assert.Less(t, number(t, streamer.Event{ID: ids[0]}), number(t, streamer.Event{ID: ids[2]}), "the cursor moves on")

	f.call("a", record.StatusFailed)
	_, name, _ := connect(t, server.URL+"/events?run=r&status=failed", ids[2]).event(t)
	assert.Equal(t, "failed", name)
}
