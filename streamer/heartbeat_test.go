package streamer_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/streamer"
)

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

	f.call("a", core.StatusFailed)
	_, name, _ := connect(t, server.URL+"/events?run=r&status=failed", ids[2]).event(t)
	assert.Equal(t, "failed", name)
}
