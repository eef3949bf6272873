package jetstream_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/adapters/jetstream"
	"github.com/reprise-go/reprise/adapters/jetstream/jstest"
	"github.com/reprise-go/reprise/internal/testkit/process"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// dashboard serves the runs of all workers as a separate node, and returns its URL.
func dashboard(t *testing.T, url string) string {
	t.Helper()
	runs := stored.New(open(t, jstest.Connect(t, url), jetstream.Options{Lease: longLease}))
	handler, err := streamer.New(runs, streamer.Options{})
	require.NoError(t, err)
	served := httptest.NewServer(handler)
	ctx, cancel := context.WithCancel(t.Context())
	var following sync.WaitGroup
	following.Go(func() {
		pause := time.NewTimer(0)
		defer pause.Stop()
		for ctx.Err() == nil { // the server may be down
			_ = runs.Follow(ctx, handler)
			pause.Reset(10 * time.Millisecond)
			select {
			case <-pause.C:
			case <-ctx.Done():
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		following.Wait()
		assert.NoError(t, handler.Close(context.WithoutCancel(ctx)))
		served.Close()
	})
	return served.URL
}

// TestClientOfADashboardMissesNothingAcrossFaults follows a run from its beginning to its end as a
// client, while the worker is killed once and the server twice. Halfway through, the client
// switches to another node.
func TestClientOfADashboardMissesNothingAcrossFaults(t *testing.T) {
	t.Parallel()
	set := oneServer(t)
	running, _, url := startServer(t, set)
	s := newSite(t, url, jetstream.Options{Lease: lease})
	nodes := []string{dashboard(t, url), dashboard(t, url)}
	restarts := 0
	restart := func() {
		restarts++
		running.Kill()
		running, _, _ = startServer(t, set)
	}
	var first, second *process.Process
	first = s.worker("hold after")
	s.start("r", 12)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ids := []string{}
	follow := func(node string, until func() bool) {
		t.Helper()
		after := ""
		if len(ids) > 0 {
			after = ids[len(ids)-1]
		}
		client := streamer.Client{URL: node, Run: "r", After: after, UntilEnd: true, MaxDelay: 10 * time.Millisecond, Absence: patience}
		for e, err := range client.Events(ctx) {
			require.NoError(t, err)
			require.NotContains(t, []string{"gap", "reset", "unreadable"}, e.Name)
			if e.ID != "" {
				ids = append(ids, e.ID[strings.IndexByte(e.ID, '.')+1:])
			}
			if until() {
				return
			}
		}
	}
	held := 0
	follow(nodes[0], func() bool {
		if len(ids) == 3 { // the run will soon reach the step that waits
			first.Await("holding")
			restart()
			first.Kill()
			second = s.worker("")
			held = len(ids)
		}
		return held > 0 && len(ids) >= held+4
	})
	follow(nodes[1], func() bool {
		if len(ids) == held+8 {
			restart()
		}
		return false
	})
	assert.Equal(t, 2, restarts)
	s.check("r", 12, 0)
	assert.Equal(t, s.eventIDs("r"), ids)
	second.Stop()
	running.Stop()
}

// eventIDs returns the IDs of the events that a client of a dashboard receives, up to the end of
// the run. More records may follow: if the worker that recorded the end could not close the run,
// another worker opens the run again.
func (s *site) eventIDs(run string) []string {
	s.t.Helper()
	ids := []string{}
	for rec, err := range s.client.Store().Records(s.t.Context(), run, 0) {
		require.NoError(s.t, err)
		ids = append(ids, fmt.Sprintf("%d-%d", rec.Generation, rec.Seq))
		if rec.Kind == record.KindRun && rec.Status == record.StatusCompleted {
			break
		}
	}
	return ids
}

// eventsOf follows a run on a dashboard until the run ends, and returns the IDs of its events.
func eventsOf(ctx context.Context, t *testing.T, node, run string) (ids []string) {
	client := streamer.Client{URL: node, Run: run, UntilEnd: true, MaxDelay: 10 * time.Millisecond, Absence: patience}
	for e, err := range client.Events(ctx) {
		if !assert.NoError(t, err) || !assert.NotContains(t, []string{"gap", "reset", "unreadable"}, e.Name) {
			return ids
		}
		if e.ID != "" {
			ids = append(ids, e.ID[strings.IndexByte(e.ID, '.')+1:])
		}
	}
	return ids
}
