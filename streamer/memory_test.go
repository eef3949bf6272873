package streamer_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// heap returns the number of heap bytes in use after a garbage collection.
func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// long publishes n log lines of 100 KB.
func (f *feed) long(n int) {
	for range n {
		f.publish(record.Record{
			Kind: record.KindLog, Status: record.StatusRecorded, Detail: &record.Detail{Message: strings.Repeat("long ", 20<<10)},
		})
	}
}

// crowd publishes more than 1 MB of other runs' records.
func crowd(h *streamer.Handler) {
	for n := range 5 {
		f := newFeed(fmt.Sprint("other-", n), h.Publish)
		f.open()
		f.long(5)
	}
}

func TestMemoryIsBoundedInBytes(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Memory: 4 << 20})
	before := heap()
	for n := range 30 { // 30 MB
		f := newFeed(fmt.Sprint("run-", n), h.Publish)
		f.open()
		f.long(10)
		assert.LessOrEqual(t, h.Stats().HistoryBytes, int64(4<<20))
		assert.Positive(t, h.Stats().HistoryBytes)
	}
	assert.Less(t, heap(), before+16<<20)
	assert.Less(t, h.Stats().HistoryKept, uint64(50))

	var all struct{ Runs []streamer.RunState }
	require.Equal(t, 200, get(t, server.URL+"/api/runs?limit=500", &all))
	assert.Len(t, all.Runs, 30, "no run is forgotten")
	for _, r := range all.Runs {
		assert.EqualValues(t, 11, r.LastSeq)
	}
}

func TestRecordedErrorsCountAsMemory(t *testing.T) {
	h, _ := serve(t, nil, streamer.Options{Memory: 1 << 20})
	f := newFeed("r", h.Publish)
	f.open()
	before := heap()
	for range 100 { // 10 MB
		f.publish(record.Record{
			Kind: record.KindTool, Status: record.StatusFailed, WillRetry: true, Err: &record.Error{Message: strings.Repeat("no", 50<<10)},
		})
		assert.LessOrEqual(t, h.Stats().HistoryBytes, int64(1<<20))
	}
	assert.Less(t, heap(), before+4<<20)
}

// TestClientContinuesAfterForgottenEvents: without a source, a client continues
// with its cursor even if the events before it are no longer in memory.
func TestClientContinuesAfterForgottenEvents(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Memory: 1 << 20})
	f := newFeed("r", h.Publish)
	f.open()
	f.log(3)
	w := connect(t, server.URL+"/events?run=r", "")
	_, ids := seqs(t, w, 4)
	require.NoError(t, w.Body.Close())
	for h.Stats().Clients > 0 {
		runtime.Gosched()
		require.NoError(t, t.Context().Err())
	}
	crowd(h)
	var run struct {
		Cursor  string
		Omitted int
		Records []any
	}
	require.Equal(t, 200, get(t, server.URL+"/api/runs/r", &run))
	assert.Empty(t, run.Records)
	assert.Equal(t, 4, run.Omitted)
	assert.Equal(t, ids, run.Cursor)

	upToDate := connect(t, server.URL+"/events?run=r", ids)
	behind := connect(t, server.URL+"/events?run=r", strings.TrimSuffix(ids, "4")+"2")
	id, name, data := behind.event(t)
	assert.Equal(t, []string{ids, "gap"}, []string{id, name})
	assert.JSONEq(t, `{"run_id": "r", "missed": 2}`, data)
	f.log(1)
	for _, w := range []*wire{upToDate, behind} {
		got, _ := seqs(t, w, 5)
		assert.Equal(t, []uint64{5}, got)
	}
}

func TestWhatIsForgottenComesFromTheSource(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{Memory: 1 << 20})
	f := newFeed("r", source.put, h.Publish)
	f.open()
	f.long(3)
	f.end(record.StatusCompleted)
	crowd(h)

	w := connect(t, server.URL+"/events?run=r", "")
	got, _ := seqs(t, w, 5)
	assert.Equal(t, count(1, 5), got)
	f.log(2)
	got, _ = seqs(t, w, 7)
	assert.Equal(t, count(6, 7), got)
}

func TestWhatIsForgottenWithoutASourceIsAGap(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{Memory: 1 << 20})
	f := newFeed("r", h.Publish)
	f.open()
	watching := connect(t, server.URL+"/events?run=r", "")
	_, first := seqs(t, watching, 1)
	require.NoError(t, watching.Body.Close())
	for h.Stats().Clients > 0 { // a run with clients would be forgotten last
		runtime.Gosched()
		require.NoError(t, t.Context().Err())
	}
	f.long(3)
	crowd(h)
	f.log(1)

	w := connect(t, server.URL+"/events?run=r", first)
	_, name, data := w.event(t)
	assert.Equal(t, "gap", name, data)
	got, _ := seqs(t, w, 5)
	assert.Equal(t, count(5, 5), got)
}
