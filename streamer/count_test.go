package streamer_test

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// counted is a shelf that counts how many of its records are read.
type counted struct {
	*shelf
	records *atomic.Int64
}

func (s counted) Records(ctx context.Context, id string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for r, err := range s.shelf.Records(ctx, id, after) {
			s.records.Add(1)
			if !yield(r, err) {
				return
			}
		}
	}
}

// When a client reconnects, only the records it missed are read.
func TestClientThatComesBackReadsOnlyWhatItMissed(t *testing.T) {
	source := counted{newShelf(), new(atomic.Int64)}
	f := newFeed("r", source.put)
	f.open()
	f.log(4999)
	f.open()
	f.log(4999)
	_, server := serve(t, source, streamer.Options{})
	for _, missed := range []uint64{1, 10, 5001} {
		source.records.Store(0)
		generation := 2
		if missed > 5000 {
			generation = 1
		}
		w := connect(t, server.URL+"/events?run=r", fmt.Sprintf("%d-%d", generation, 10_000-missed))
		got, _ := seqs(t, w, 10_000)
		assert.Len(t, got, int(missed))
		assert.EqualValues(t, missed+1, source.records.Load(), "with the record of the cursor itself")
	}
}

// The first snapshot reads all records of a run; later snapshots read only the records added since.
func TestRunIsReadOnceForTheSnapshot(t *testing.T) {
	source := counted{newShelf(), new(atomic.Int64)}
	f := newFeed("r", source.put)
	f.open()
	f.log(999)
	_, server := serve(t, source, streamer.Options{})
	look := func() (records int64, run streamer.RunState) {
		source.records.Store(0)
		var body struct {
			Run     streamer.RunState
			Records []struct{ Seq uint64 }
		}
		require.Equal(t, 200, get(t, server.URL+"/api/runs/r?limit=10", &body))
		require.Len(t, body.Records, 10)
		assert.Equal(t, body.Run.LastSeq, body.Records[9].Seq)
		assert.False(t, body.Run.Partial)
		return source.records.Load(), body.Run
	}
	read, _ := look()
	assert.EqualValues(t, 1000+10, read)
	f.call("a", record.StatusStarted) // by another process
	f.call("a", record.StatusCompleted)
	read, run := look()
	assert.EqualValues(t, 1+2+10, read)
	assert.Equal(t, 1, run.Calls.Completed)
	source.lose("r", 1001)
	f.seq = 1001
	f.open()
	f.log(1)
	read, run = look()
	assert.Zero(t, run.Calls.Completed, "a crash has lost it")
	assert.LessOrEqual(t, read, int64(2+1003+10))
}

func TestListCountsAllRuns(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{})
	for i := range 120 {
		newFeed(fmt.Sprintf("stored-%03d", i), source.put).open()
	}
	live := newFeed("live", h.Publish)
	live.open()
	live.end(record.StatusFailed)
	var body struct {
		Runs   []streamer.RunState
		Counts map[string]int
		Next   string
	}
	require.Equal(t, 200, get(t, server.URL+"/api/runs?limit=3", &body))
	assert.Len(t, body.Runs, 3)
	assert.NotEmpty(t, body.Next)
	assert.Equal(t, map[string]int{"interrupted": 120, "failed": 1}, body.Counts)
	require.Equal(t, 200, get(t, server.URL+"/api/runs?limit=1000", &body))
	partial := 0
	for _, r := range body.Runs {
		if r.Partial {
			partial++
		}
	}
	assert.Equal(t, 120, partial, "unread records must not be reported as zero")
}
