package jetstream_test

import (
	"bytes"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// The index is written after the records. In this test, Watch begins between the two writes: the
// index lacks one run, shows another as it was before its end, and still contains a deleted one.
func TestWatchDoesNotMissWhatTheIndexDoesNotShowYet(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	s := open(t, conn, jetstream.Options{})
	js, err := njs.New(conn)
	require.NoError(t, err)
	index, err := js.Stream(t.Context(), "RPI_reprise")
	require.NoError(t, err)
	create := func(id string) {
		run, err := snapshot.NewRun(snapshot.Info{RunID: id, Status: snapshot.StatusQueued}, nil)
		require.NoError(t, err)
		_, err = s.Create(t.Context(), run)
		require.NoError(t, err)
	}
	before := make(map[string]*njs.RawStreamMsg)
	for _, id := range []string{"same", "new", "ended", "gone"} {
		create(id)
		before[id], err = index.GetLastMsgForSubject(t.Context(), "rpi.reprise.*.*.*.*.*."+id)
		require.NoError(t, err)
	}
	_, err = s.Update(t.Context(), "ended", func(i *snapshot.Info) error {
		i.Status = snapshot.StatusCompleted
		return nil
	})
	require.NoError(t, err)
	require.NoError(t, s.Delete(t.Context(), "gone"))
	for _, id := range []string{"new", "ended", "gone"} {
		require.NoError(t, index.Purge(t.Context(), njs.WithPurgeSubject("rpi.reprise.*.*.*.*.*."+id)))
	}
	for _, id := range []string{"ended", "gone"} {
		msg := &nats.Msg{Subject: before[id].Subject, Header: nats.Header{}, Data: before[id].Data}
		for name, values := range before[id].Header {
			if strings.HasPrefix(name, "Rp-") { // the other headers were set by the server
				msg.Header[name] = values
			}
		}
		_, err = js.PublishMsg(t.Context(), msg)
		require.NoError(t, err)
	}

	got := make(map[string]snapshot.Status)
	events := 0
	for e, err := range s.Watch(t.Context(), snapshot.WatchOptions{}) {
		require.NoError(t, err)
		if e.Info.RunID == "last" {
			break
		}
		if got[e.Info.RunID] = e.Info.Status; e.Deleted {
			delete(got, e.Info.RunID)
		}
		if events++; events == 1 {
			create("last")
		}
	}
	assert.Equal(t, map[string]snapshot.Status{
		"same": snapshot.StatusQueued, "new": snapshot.StatusQueued, "ended": snapshot.StatusCompleted,
	}, got)
	assert.Equal(t, 6, events, "each run, two corrections and a deletion")
}

// TestWatchOfARunMissesNothingAfterAnOldAnswer gets the state of the run from a server that does
// not yet know that it no longer leads the stream, but the end of the stream from the new leader.
func TestWatchOfARunMissesNothingAfterAnOldAnswer(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	const last = "STREAM.MSG.GET.RP_reprise"
	var old atomic.Pointer[nats.Msg] // the answer of the server that is no longer the leader
	answerFirst(t, conn, func(call string, request *nats.Msg) *nats.Msg {
		if call == last && strings.Contains(string(request.Data), "rp.reprise.r.run") {
			return old.Swap(nil)
		}
		return nil
	})
	reader := open(t, conn, jetstream.Options{APIPrefix: "first.API"})
	writer := open(t, conn, jetstream.Options{})

	j := begin(t, writer, snapshot.OpenOptions{Create: true})
	require.NoError(t, j.Append(storetest.Records(1, 1)...))
	require.NoError(t, j.Sync(t.Context(), 1))
	before, err := conn.Request("$JS.API."+last, []byte(`{"last_by_subj":"rp.reprise.r.run"}`), patience)
	require.NoError(t, err)
	require.NoError(t, j.Append(storetest.Records(2, 1)...))
	require.NoError(t, j.Sync(t.Context(), 2))
	old.Store(before)

	var seen []uint64
	for e, err := range reader.Watch(t.Context(), snapshot.WatchOptions{RunID: "run", Records: true}) {
		require.NoError(t, err)
		if len(e.Records) == 0 { // the first event
			assert.Equal(t, uint64(1), e.Info.LastSeq)
			require.NoError(t, j.Append(storetest.Records(3, 1)...))
			require.NoError(t, j.Sync(t.Context(), 3))
			continue
		}
		for _, rec := range e.Records {
			seen = append(seen, rec.Seq)
		}
		if seen[len(seen)-1] == 3 {
			break
		}
	}
	assert.Equal(t, []uint64{2, 3}, seen)
	require.NoError(t, j.Close(t.Context(), snapshot.End{Status: snapshot.StatusCompleted}))
}

// answerFirst calls answer for each request to the API with the prefix "first.API". If answer
// returns nil, the server answers the request.
func answerFirst(t *testing.T, conn *nats.Conn, answer func(call string, request *nats.Msg) *nats.Msg) {
	const prefix = "first.API."
	_, err := conn.Subscribe(prefix+">", func(request *nats.Msg) {
		call := strings.TrimPrefix(request.Subject, prefix)
		if m := answer(call, request); m != nil {
			assert.NoError(t, request.RespondMsg(&nats.Msg{Header: m.Header, Data: m.Data}))
			return
		}
		assert.NoError(t, conn.PublishRequest("$JS.API."+call, request.Reply, request.Data))
	})
	require.NoError(t, err)
}

// TestListAsksAgainIfAServerLagsBehind has a server that answers first but does not yet have what
// another server has already stored.
func TestListAsksAgainIfAServerLagsBehind(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	var lags atomic.Bool
	answerFirst(t, conn, func(call string, _ *nats.Msg) *nats.Msg {
		if call == "DIRECT.GET.RPI_reprise" && lags.CompareAndSwap(true, false) {
			return &nats.Msg{Header: nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}}
		}
		return nil
	})
	s := open(t, conn, jetstream.Options{APIPrefix: "first.API"})
	run, err := snapshot.NewRun(snapshot.Info{RunID: "run", Status: snapshot.StatusCompleted}, nil)
	require.NoError(t, err)
	_, err = s.Create(t.Context(), run)
	require.NoError(t, err)
	lags.Store(true)
	page, err := s.List(t.Context(), snapshot.Filter{})
	require.NoError(t, err)
	assert.Len(t, page.Runs, 1)
	assert.False(t, lags.Load())
}

// TestListFindsARunThatMovesInTheIndex changes a run after the end of the index has been read and
// before the index itself is.
func TestListFindsARunThatMovesInTheIndex(t *testing.T) {
	t.Parallel()
	conn := jstest.Start(t).Connect()
	var changes atomic.Bool
	direct := open(t, conn, jetstream.Options{})
	answerFirst(t, conn, func(call string, request *nats.Msg) *nats.Msg {
		if call == "DIRECT.GET.RPI_reprise" && bytes.Contains(request.Data, []byte(`"batch"`)) && changes.CompareAndSwap(true, false) {
			_, err := direct.Update(t.Context(), "moves", func(i *snapshot.Info) error {
				i.Pinned = true
				return nil
			})
			assert.NoError(t, err)
		}
		return nil
	})
	s := open(t, conn, jetstream.Options{APIPrefix: "first.API"})
	create(t, s, "moves", snapshot.StatusCompleted, time.Time{})
	create(t, s, "stays", snapshot.StatusCompleted, time.Time{})
	for _, f := range []snapshot.Filter{{}, {Limit: 10}, {Status: []snapshot.Status{snapshot.StatusCompleted}}, {Sort: snapshot.SortCreated}} {
		changes.Store(true)
		page, err := s.List(t.Context(), f)
		require.NoError(t, err)
		assert.False(t, changes.Load())
		assert.Equal(t, []string{"moves", "stays"}, ids(page), "%+v", f)
		_, err = direct.Update(t.Context(), "stays", func(*snapshot.Info) error { return nil })
		require.NoError(t, err)
	}
}
