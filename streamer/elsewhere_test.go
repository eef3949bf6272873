package streamer_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// names returns the event names of the frames.
func names(frames []frame) (all []string) {
	for _, f := range frames {
		all = append(all, f.name)
	}
	return all
}

func TestClientLearnsThatARunElsewhereHasNoDeltas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var elsewhere atomic.Bool
		elsewhere.Store(true)
		h := newHandler(t, streamer.Options{Elsewhere: func(_ context.Context, runID string) bool {
			return runID == "r" && elsewhere.Load()
		}})
		f := newFeed("r", h.Publish)
		f.open()
		late := watch(t, h, "/events?run=r&deltas=true", true)
		frames := late.frames()
		assert.Equal(t, []string{"run_started", "elsewhere"}, names(frames[len(frames)-2:]))
		assert.Equal(t, frames[len(frames)-2].id, frames[len(frames)-1].id, "the event does not move the cursor")
		assert.JSONEq(t, `{"run_id":"r","message":"Another process executes this run, so what its calls are producing is not available here."}`, frames[len(frames)-1].data)
		records := watch(t, h, "/events?run=r", true)
		assert.NotContains(t, names(records.frames()), "elsewhere", "the client has not asked for deltas")

		f.call("agent/model", record.StatusStarted)
		pass(10 * time.Millisecond)
		assert.Equal(t, []string{"started"}, names(late.frames()), "the client is told once")
		f.end(record.StatusInterrupted)
		f.open()
		pass(10 * time.Millisecond)
		assert.Equal(t, []string{"run_interrupted", "run_started", "elsewhere"}, names(late.frames()), "once for each opening")
		elsewhere.Store(false)
		f.end(record.StatusInterrupted)
		f.open()
		pass(10 * time.Millisecond)
		assert.Equal(t, []string{"run_interrupted", "run_started"}, names(late.frames()))
	})
}
