package jetstream_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	njs "github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/snapshot"
)

// The index is written after the records. In this test Watch begins between the two writes: the
// index lacks one run, shows another in the state before its end, and still has a deleted one.
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
