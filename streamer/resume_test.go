package streamer_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// seqs reads events up to and including the one with the number last. It returns the numbers of all
// of them and the last ID.
func seqs(t testing.TB, w *wire, last uint64) (all []uint64, id string) {
	t.Helper()
	for {
		var name, data string
		id, name, data = w.event(t)
		require.NotContains(t, []string{"gap", "reset"}, name, data)
		n := seqOf(t, streamer.Event{Data: []byte(data)})
		if all = append(all, n); n == last {
			return all, id
		}
	}
}

func count(first, last uint64) (all []uint64) {
	for n := first; n <= last; n++ {
		all = append(all, n)
	}
	return all
}

func TestRunIsStreamedFromItsFirstRecordToTheLatest(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	f.log(9)
	w := connect(t, server.URL+"/events?run=r", "")
	got, _ := seqs(t, w, 10)
	f.log(5)
	more, id := seqs(t, w, 15)
	assert.Equal(t, count(1, 15), append(got, more...))

	again := connect(t, server.URL+"/events?run=r", id)
	f.log(1)
	next, _ := seqs(t, again, 16)
	assert.Equal(t, []uint64{16}, next, "nothing twice, nothing missed")

	polyfill := connect(t, server.URL+"/events?run=r&after=1-1&lastEventId="+id, "")
	next, _ = seqs(t, polyfill, 16)
	assert.Equal(t, []uint64{16}, next, "the ID that a client has read last counts")

	byQuery := connect(t, server.URL+"/events?run=r&after="+strings.Replace(id, "-15", "-14", 1), "")
	next, _ = seqs(t, byQuery, 16)
	assert.Equal(t, []uint64{15, 16}, next)
}

func TestAllRunsAreStreamedFromNowOn(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f, g := newFeed("f", h.Publish), newFeed("g", h.Publish)
	f.open()
	w := connect(t, server.URL+"/events", "")
	w.retry(t) // the stream has begun
	g.open()
	f.log(1)
	id, name, data := w.event(t)
	assert.Equal(t, "run_started", name)
	assert.Contains(t, data, `"run_id":"g"`)
	_, _, data = w.event(t)
	assert.Contains(t, data, `"run_id":"f"`)

	again := connect(t, server.URL+"/events", id)
	_, _, data = again.event(t)
	assert.Contains(t, data, `"run_id":"f"`)
}

func TestCursorOlderThanWhatIsKeptIsAGap(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{History: 10})
	f := newFeed("r", h.Publish)
	f.open()
	_, first := seqs(t, connect(t, server.URL+"/events?run=r", ""), 1)
	f.log(29) // events 21 to 30 are kept

	w := connect(t, server.URL+"/events?run=r", first)
	id, name, data := w.event(t)
	assert.Equal(t, "gap", name)
	assert.JSONEq(t, `{"run_id":"r","missed":19}`, data)
	got, _ := seqs(t, w, 30)
	assert.Equal(t, count(21, 30), got)

	got, _ = seqs(t, connect(t, server.URL+"/events?run=r", id), 30)
	assert.Equal(t, count(21, 30), got, "the ID of a gap continues after the gap")

	var all struct{ Cursor string }
	require.Equal(t, 200, get(t, server.URL+"/api/runs", &all))
	f.log(15)
	_, name, data = connect(t, server.URL+"/events", all.Cursor).event(t)
	assert.Equal(t, "gap", name)
	assert.JSONEq(t, `{"missed":5}`, data)
}

func TestForeignCursorIsAReset(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	f.log(3)
	for _, id := range []string{"zzz-3", "nonsense", "42", "-", "a-b-3", "ABC-3", "x-03", strings.Repeat("a", 99) + "-1", "a-99999999999999999999"} {
		w := connect(t, server.URL+"/events?run=r", id)
		_, name, _ := w.event(t)
		assert.Equal(t, "reset", name, id)
		got, _ := seqs(t, w, 4)
		assert.Equal(t, count(1, 4), got, "the stream begins again")

		_, name, _ = connect(t, server.URL+"/events", id).event(t)
		assert.Equal(t, "reset", name, id)
	}
}

// restart starts a new server with the source, as if the process had restarted. From then on, the
// records of f are published to the new server.
func restart(t testing.TB, source *shelf, f *feed) (*streamer.Handler, string) {
	h, server := serve(t, source, streamer.Options{})
	f.to = func(r record.Record) { source.put(r); h.Publish(r) }
	return h, server.URL
}

func TestCursorOutlivesTheProcess(t *testing.T) {
	source := newShelf()
	f := newFeed("r")
	_, url := restart(t, source, f)
	f.open()
	f.log(9)
	_, id := seqs(t, connect(t, url+"/events?run=r", ""), 7)

	_, url = restart(t, source, f)
	got, _ := seqs(t, connect(t, url+"/events?run=r", id), 10)
	assert.Equal(t, count(8, 10), got, "before the run is opened again")
	w := connect(t, url+"/events?run=r", id)
	f.open()
	f.log(4)
	got, id = seqs(t, w, 15)
	assert.Equal(t, count(8, 15), got, "across the opening")
	got, _ = seqs(t, connect(t, url+"/events?run=r", ""), 15)
	assert.Equal(t, count(1, 15), got, "from the first record")

	_, url = restart(t, source, f)
	w = connect(t, url+"/events?run=r", id)
	f.open()
	got, _ = seqs(t, w, 16)
	assert.Equal(t, []uint64{16}, got)
}

func TestCursorPastWhatACrashKeptIsAReset(t *testing.T) {
	source := newShelf()
	f := newFeed("r")
	h, url := restart(t, source, f)
	f.open()
	f.log(9)
	w := connect(t, url+"/events?run=r", "")
	_, id := seqs(t, w, 10)

	// The process dies, and the last records are lost because they were not synced.
	source.lose("r", 6)
	f.seq = 6
	_, url2 := restart(t, source, f)
	again := connect(t, url2+"/events?run=r", id)
	_, name, _ := again.event(t)
	assert.Equal(t, "reset", name)
	f.open()
	f.log(3)
	got, newer := seqs(t, again, 10)
	assert.Equal(t, count(1, 10), got)
	assert.NotEqual(t, id, newer, "another generation, so the ID of the same number differs")

	_, name, _ = connect(t, url2+"/events?run=r", id).event(t)
	assert.Equal(t, "reset", name, "also while the run continues")

	// If the handler survives the crash, clients that stayed connected are told, too.
	f.to, f.seq = h.Publish, 6
	f.open()
	_, name, _ = w.event(t)
	assert.Equal(t, "reset", name)
}

func TestWhatIsNoLongerKeptComesFromTheSource(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{History: 10})
	f := newFeed("r", source.put, h.Publish)
	f.open()
	_, id := seqs(t, connect(t, server.URL+"/events?run=r", ""), 1)
	f.log(99)
	w := connect(t, server.URL+"/events?run=r", id)
	got, _ := seqs(t, w, 100)
	assert.Equal(t, count(2, 100), got)
	f.log(1)
	got, _ = seqs(t, w, 101)
	assert.Equal(t, []uint64{101}, got)
}

func TestRecordsThatWereNotPublishedComeFromTheSource(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{})
	f := newFeed("r", source.put, func(r record.Record) {
		if r.Seq%5 != 0 { // as if a queue between the run and the handler had been full
			h.Publish(r)
		}
	})
	f.open()
	f.log(50)
	w := connect(t, server.URL+"/events?run=r", "")
	got, _ := seqs(t, w, 51)
	f.log(10)
	more, _ := seqs(t, w, 61)
	assert.Equal(t, count(1, 61), append(got, more...))
}

func TestRecordsThatNobodyHasAreAGap(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", func(r record.Record) {
		if r.Seq != 5 && r.Seq != 6 {
			h.Publish(r)
		}
	})
	f.open()
	w := connect(t, server.URL+"/events?run=r", "")
	seqs(t, w, 1)
	f.log(9)
	seqs(t, w, 4)
	id, name, data := w.event(t)
	assert.Equal(t, "gap", name)
	assert.JSONEq(t, `{"run_id":"r","missed":2}`, data)
	assert.True(t, strings.HasSuffix(id, "-6"), id)
	got, _ := seqs(t, w, 10)
	assert.Equal(t, count(7, 10), got)
}

func TestRecoveredRecordsHaveNoIDAndComeOnce(t *testing.T) {
	h, server := serve(t, nil, streamer.Options{})
	f := newFeed("r", h.Publish)
	f.open()
	w := connect(t, server.URL+"/events?run=r", "")
	_, id := seqs(t, w, 1)
	h.Publish(record.Record{RunID: "r", Kind: record.KindTool, Status: record.StatusRecovered, Replayed: true})
	recoveredID, name, _ := w.event(t)
	assert.Equal(t, "recovered", name)
	assert.Empty(t, recoveredID)
	f.log(1)
	got, _ := seqs(t, connect(t, server.URL+"/events?run=r", id), 2)
	assert.Equal(t, []uint64{2}, got)
}

func TestRecordPublishedWhileTheSourceIsReadIsNotMissed(t *testing.T) {
	source := newShelf()
	f := newFeed("r")
	_, url := restart(t, source, f)
	f.open()
	_, id := seqs(t, connect(t, url+"/events?run=r", ""), 1)
	_, url = restart(t, source, f)
	source.read = sync.OnceFunc(func() { f.log(1) })
	got, _ := seqs(t, connect(t, url+"/events?run=r", id), 2)
	assert.Equal(t, []uint64{2}, got)
}

// torn is a source in which reading records ends with an error.
type torn struct{ *shelf }

func (s torn) Records(ctx context.Context, id string, after uint64) iter.Seq2[record.Record, error] {
	return func(yield func(record.Record, error) bool) {
		for r := range s.shelf.Records(ctx, id, after) {
			if !yield(r, nil) {
				return
			}
		}
		yield(record.Record{}, errors.New("the disk is gone"))
	}
}

func TestUnreadableRecordsAreReportedAfterReadableOnes(t *testing.T) {
	source := newShelf()
	f := newFeed("r", source.put)
	f.open()
	f.log(2)
	_, server := serve(t, torn{source}, streamer.Options{})
	w := connect(t, server.URL+"/events?run=r", "")
	seqs(t, w, 3)
	_, name, data := w.event(t)
	assert.Equal(t, "unreadable", name)
	assert.Contains(t, data, "unreadable")
	assert.NotContains(t, data, "disk", "the text may contain paths and hosts")
	_, err := w.lines.ReadString('\n')
	assert.ErrorIs(t, err, io.EOF)
}

// TestRecordBetweenTwoOpeningsIsNotWaitedForInVain answers a question while no process has the run
// open. The source contains the answer, but nobody publishes it.
func TestRecordBetweenTwoOpeningsIsNotWaitedForInVain(t *testing.T) {
	for name, source := range map[string]*shelf{"with a source": newShelf(), "without": nil} {
		t.Run(name, func(t *testing.T) {
			var from streamer.Source
			keep := func(record.Record) {}
			if source != nil {
				from, keep = source, source.put
			}
			h, server := serve(t, from, streamer.Options{})
			f := newFeed("r", keep, h.Publish)
			f.open()
			f.call("a", record.StatusStarted)
			f.publish(record.Record{Address: address(t, "a"), Name: "a?1", Kind: record.KindQuestion, Status: record.StatusAwaiting})
			f.end(record.StatusAwaiting)
			w := connect(t, server.URL+"/events?run=r", "")
			seqs(t, w, 4)
			published := f.to
			f.to = keep
			f.publish(record.Record{Address: address(t, "a"), Name: "a?1", Kind: record.KindAnswer, Status: record.StatusRecorded})
			f.to = published
			f.open()
			f.call("a", record.StatusCompleted)
			if source == nil {
				_, name, data := w.event(t)
				assert.Equal(t, "gap", name)
				assert.JSONEq(t, `{"run_id":"r","missed":1}`, data)
				got, _ := seqs(t, w, 7)
				assert.Equal(t, count(6, 7), got)
			} else {
				got, _ := seqs(t, w, 7)
				assert.Equal(t, count(5, 7), got)
			}
			var all runs
			require.Equal(t, 200, get(t, server.URL+"/api/runs", &all))
			assert.Empty(t, all.Runs[0].Questions)
			assert.Equal(t, source == nil, all.Runs[0].Partial)
		})
	}
}

func address(t testing.TB, text string) record.Address {
	t.Helper()
	a, err := record.ParseAddress(text)
	require.NoError(t, err)
	return a
}
