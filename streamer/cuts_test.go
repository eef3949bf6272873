package streamer_test

import (
	"context"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/streamer"
)

// through returns a client that shares no connections with other tests.
func through(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func hostOf(t testing.TB, address string) string {
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Host
}

func TestNoGapAndNoDuplicateWhereverAConnectionIsCut(t *testing.T) {
	cuts := int64(100)
	if *long {
		cuts = 2000
	}
	source := newShelf()
	h, server := serve(t, source, streamer.Options{History: 500})
	f := newFeed("r", source.put, h.Publish)
	f.open()
	cut := testkit.NewCutter(t, server.Listener.Addr().String(), 2000, 4000)

	ctx, cancel := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	publishing.Go(func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for ctx.Err() == nil && cut.Cuts() < cuts {
			f.log(5)
			<-pace.C
		}
		f.open()
	})
	defer publishing.Wait()
	defer cancel()

	client := &streamer.Client{URL: cut.URL(), Run: "r", HTTPClient: through(t), MaxDelay: time.Millisecond}
	next := uint64(1)
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		require.NotContains(t, []string{"gap", "reset"}, e.Name, "%s", e.Data)
		require.Equal(t, next, number(t, e), "after %d cuts", cut.Cuts())
		next++
		if e.Name == "run_started" && next > 2 { // the second "run_started", after the last cut
			break
		}
	}
	assert.GreaterOrEqual(t, cut.Cuts(), cuts)
}

func TestNoGapAndNoDuplicateWhileTheServerRestarts(t *testing.T) {
	source := newShelf()
	f := newFeed("r")
	_, url := restart(t, source, f)
	f.open()
	cut := testkit.NewCutter(t, hostOf(t, url), 200, 3000)
	client := &streamer.Client{URL: cut.URL(), Run: "r", HTTPClient: through(t), MaxDelay: time.Millisecond}
	next := uint64(1)
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		require.NotContains(t, []string{"gap", "reset"}, e.Name, "%s", e.Data)
		require.Equal(t, next, number(t, e))
		if next == 1000 {
			break
		}
		if next++; next%50 == 0 {
			_, url = restart(t, source, f) // the old server keeps its clients
			cut.Aim(hostOf(t, url))
			f.open()
		}
		f.log(2)
	}
	assert.Greater(t, cut.Cuts(), int64(20))
}
