package streamer_test

import (
	"math"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

func TestCostThatIsNotANumberHidesNoRun(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	for _, cost := range []float64{math.NaN(), 1.5, math.Inf(1)} {
		f.call("a", record.StatusStarted)
		f.call("a", record.StatusCompleted, func(r *record.Record) { r.Detail = &record.Detail{Usage: record.Usage{Cost: cost}} })
	}
	newFeed("g", h.Publish).open()
	var all struct {
		Runs []struct {
			ID    string       `json:"run_id"`
			Usage record.Usage `json:"usage"`
		}
	}
	assert.Equal(t, 200, get(t, server.URL+"/api/runs", &all))
	if assert.Len(t, all.Runs, 2) {
		assert.Equal(t, "r", all.Runs[0].ID)
		assert.InDelta(t, 1.5, all.Runs[0].Usage.Cost, 0)
	}
}

// slowError is an error whose Error method takes a long time.
type slowError struct {
	asked *sync.Once
	begun chan struct{}
	end   chan struct{}
}

func (e slowError) Error() string {
	e.asked.Do(func() {
		close(e.begun)
		<-e.end
	})
	return "at last"
}

func TestErrorWithASlowErrorMethodDoesNotBlockTheRun(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	slow := slowError{new(sync.Once), make(chan struct{}), make(chan struct{})}
	f.call("a", record.StatusFailed, func(r *record.Record) { r.Err = slow })
	answered := make(chan int, 1)
	go func() {
		resp, err := http.Get(server.URL + "/api/runs")
		if err != nil {
			answered <- 0
			return
		}
		_ = resp.Body.Close()
		answered <- resp.StatusCode
	}()
	<-slow.begun
	f.log(1) // must not block
	close(slow.end)
	assert.Equal(t, 200, <-answered)
}

func TestRunThatIsBusyIsReadOnceForTheOverview(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.open()
	f.log(4)
	reads := 0
	source.read = func() {
		if reads++; reads < 100 {
			f.log(2) // the run continues while it is read
		}
	}
	h, server := serve(t, source, streamer.Options{})
	f.to = func(r record.Record) { source.put(r); h.Publish(r) }
	f.call("a", record.StatusStarted)
	var all struct {
		Runs []struct {
			Partial bool   `json:"partial"`
			LastSeq uint64 `json:"last_seq"`
			Calls   streamer.Calls
		}
	}
	assert.Equal(t, 200, get(t, server.URL+"/api/runs", &all))
	assert.Equal(t, 1, reads)
	if assert.Len(t, all.Runs, 1) {
		assert.False(t, all.Runs[0].Partial)
		assert.EqualValues(t, 8, all.Runs[0].LastSeq)
		assert.Equal(t, 1, all.Runs[0].Calls.Started)
	}
}
