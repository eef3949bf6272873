package streamer_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/streamer"
)

// cutter passes connections on to a server and cuts each after a random
// number of bytes: half of them at the end of what was sent, half with a reset.
type cutter struct {
	listener net.Listener
	target   atomic.Pointer[string]
	most     int64 // bytes of a connection
	cuts     atomic.Int64
	wanted   int64 // after so many cuts connections are left alone
	done     sync.WaitGroup
}

func newCutter(t testing.TB, target string, wanted, most int64) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &cutter{listener: l, wanted: wanted, most: most}
	c.aim(t, target)
	c.done.Go(c.accept)
	t.Cleanup(func() {
		_ = l.Close()
		c.done.Wait()
	})
	return c
}

func (c *cutter) aim(t testing.TB, target string) {
	t.Helper()
	u, err := url.Parse(target)
	require.NoError(t, err)
	c.target.Store(&u.Host)
}

func (c *cutter) url() string { return "http://" + c.listener.Addr().String() }

func (c *cutter) accept() {
	rng := rand.New(rand.NewPCG(7, 7))
	for {
		conn, err := c.listener.Accept()
		if err != nil {
			return
		}
		limit, reset := rng.Int64N(c.most), rng.IntN(2) == 0
		c.done.Go(func() { c.pass(conn.(*net.TCPConn), limit, reset) })
	}
}

func (c *cutter) pass(client *net.TCPConn, limit int64, reset bool) {
	defer client.Close()
	server, err := net.Dial("tcp", *c.target.Load())
	if err != nil {
		return
	}
	defer server.Close()
	var sent sync.WaitGroup
	sent.Go(func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	})
	defer sent.Wait()
	if c.cuts.Load() >= c.wanted {
		_, _ = io.Copy(client, server)
	} else if n, _ := io.CopyN(client, server, limit); n == limit {
		c.cuts.Add(1)
	}
	if reset {
		_ = client.SetLinger(0)
	}
	_ = client.Close()
}

// through is a client without connections of other tests.
func through(t testing.TB) *http.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestNoGapAndNoDuplicateAt2000Cuts(t *testing.T) {
	source := newShelf()
	h, server := serve(t, source, streamer.Options{History: 500})
	f := newFeed("r", source.put, h.Publish)
	f.open()
	cut := newCutter(t, server.URL, 2000, 4000)

	ctx, cancel := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	publishing.Go(func() {
		pace := time.NewTicker(time.Millisecond)
		defer pace.Stop()
		for ctx.Err() == nil && cut.cuts.Load() < 2000 {
			f.log(5)
			<-pace.C
		}
		f.open()
	})
	defer publishing.Wait()
	defer cancel()

	client := &streamer.Client{URL: cut.url(), Run: "r", HTTPClient: through(t), MaxDelay: time.Millisecond}
	next := uint64(1)
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		require.NotContains(t, []string{"gap", "reset"}, e.Name, "%s", e.Data)
		require.Equal(t, next, number(t, e), "after %d cuts", cut.cuts.Load())
		next++
		if e.Name == "run_started" && next > 2 { // the second, behind the last cut
			break
		}
	}
	assert.GreaterOrEqual(t, cut.cuts.Load(), int64(2000))
}

func TestNoGapAndNoDuplicateWhileTheServerIsStartedAnew(t *testing.T) {
	source := newShelf()
	f := newFeed("r")
	_, url := restart(t, source, f)
	f.open()
	cut := newCutter(t, url, 200, 3000)
	client := &streamer.Client{URL: cut.url(), Run: "r", HTTPClient: through(t), MaxDelay: time.Millisecond}
	next := uint64(1)
	for e, err := range client.Events(t.Context()) {
		require.NoError(t, err)
		require.NotContains(t, []string{"gap", "reset"}, e.Name, "%s", e.Data)
		require.Equal(t, next, number(t, e))
		if next == 1000 {
			break
		}
		if next++; next%50 == 0 {
			_, url = restart(t, source, f) // the old one goes on serving whom it has
			cut.aim(t, url)
			f.open()
		}
		f.log(2)
	}
	assert.Greater(t, cut.cuts.Load(), int64(20))
}
