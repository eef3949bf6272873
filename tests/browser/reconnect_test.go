package browser

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// viaProxy opens the page through a proxy, with one run that has made a call.
func viaProxy(t *testing.T, options streamer.Options) (*site, *proxy, *tab, *state.ExecutionState) {
	t.Helper()
	s := newSite(t, nil, options, nil)
	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_map")
	n := newProxy(t, s.addr)
	p := open(t, n.url())
	p.expectOutages()
	p.waitText(`[data-run="trip-1"] .calls`, "1 ok")
	return s, n, p, st
}

func TestAConnectionThatWasCutResumesAfterItsLastEvent(t *testing.T) {
	t.Parallel()
	for name, rst := range map[string]bool{"FIN": false, "RST": true} {
		t.Run(name, func(t *testing.T) {
			_, n, p, st := viaProxy(t, streamer.Options{})
			succeed(t, st, "get_weather")
			p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
			snapshots := p.requested("api/runs?limit=50")

			n.cut(rst)
			succeed(t, st, "book")
			p.waitText(`[data-run="trip-1"] .calls`, "3 ok")
			p.waitText("#connection-text", "Live again, nothing missed")
			ids := n.lastEventIDs()
			require.NotEmpty(t, ids, "the browser comes back with the ID of its last event")
			assert.Regexp(t, `^[a-z0-9]+-5$`, ids[0], "after the run, the map and the weather")
			assert.Equal(t, snapshots, p.requested("api/runs?limit=50"), "the list is not loaded again")
			assert.Zero(t, p.count("[data-notice]"))
		})
	}
}

func TestTheStreamOfOneRunResumesToo(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_map")
	n := newProxy(t, s.addr)
	p := open(t, n.url()+"#run=trip-1")
	p.expectOutages()
	succeed(t, st, "get_weather")
	p.wait(`document.querySelectorAll("[data-call]").length === 2`)
	n.cut(true)
	succeed(t, st, "book")
	p.wait(`document.querySelectorAll("[data-call]").length === 3`)
	assert.NotEmpty(t, n.lastEventIDs())
	p.wait(`document.querySelectorAll(".record").length === 7`)
}

func TestRestartedServerIsReadAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "before")
	succeed(t, st, "get_map")
	p := open(t, s.url())
	p.expectOutages()
	succeed(t, st, "get_weather") // the events of this call give the page a cursor of this server
	p.waitText(`[data-run="before"] .calls`, "2 ok")

	s.stop()
	p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
	s.start(nil, streamer.Options{}, nil)
	succeed(t, begin(t, s.dash, "after"), "get_map")
	p.waitText(`[data-run="after"] .calls`, "1 ok")
	p.waitLive()
	assert.Zero(t, p.count(`[data-run="before"]`), "runs that the new server does not know are no longer shown")
	p.waitText(`[data-notice="reset"]`, "Everything was reloaded")
}

// After a laptop was asleep, its connections are dead, but it has not been notified.
func TestLaptopThatSleptReconnects(t *testing.T) {
	t.Parallel()
	_, n, p, st := viaProxy(t, streamer.Options{})
	n.sleep(true)
	succeed(t, st, "get_weather")
	eval[bool](p, `{ const real = Date.now; Date.now = () => real() + 3600_000; true }`) // an hour later
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	p.waitLive()
}

// Only the missing events tell the page that its connection is dead.
func TestADeadConnectionIsNoticed(t *testing.T) {
	t.Parallel()
	_, n, p, st := viaProxy(t, streamer.Options{})
	// Time runs five times as fast, to shorten the test.
	eval[bool](p, `{ const real = Date.now, begun = real(); Date.now = () => begun + 5 * (real() - begun); true }`)
	n.sleep(true)
	succeed(t, st, "get_weather")
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	p.waitLive()
}

func TestAQuietConnectionIsLeftAlone(t *testing.T) {
	t.Parallel()
	_, n, p, _ := viaProxy(t, streamer.Options{})
	// Time runs only three times as fast, because on a busy machine the page may be delayed by a
	// second or two, which must not look like sleep.
	eval[bool](p, `{ const real = Date.now, begun = real(); Date.now = () => begun + 3 * (real() - begun); true }`)
	streams := p.requested("events")
	p.waitRequested("health", 2)
	assert.Equal(t, streams, p.requested("events"), "the connection was checked twice and was not replaced")
	assert.Empty(t, n.lastEventIDs())
}

func TestAPageThatWasOfflineComesBack(t *testing.T) {
	t.Parallel()
	_, _, p, st := viaProxy(t, streamer.Options{})
	p.offline(true)
	p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
	succeed(t, st, "get_weather")
	p.offline(false)
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	p.waitLive()
}

func TestGapIsShownAndFilled(t *testing.T) {
	t.Parallel()
	_, n, p, st := viaProxy(t, streamer.Options{History: 8})
	succeed(t, st, "get_weather")
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	n.block()
	p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
	for range 20 {
		succeed(t, st, "book") // 40 events in all, of which the server keeps 8
	}
	n.wake()
	p.waitText(`[data-notice="gap"]`, "32 events had been dropped from the server's memory")
	p.waitText(`[data-run="trip-1"] .calls`, "22 ok")
	p.waitLive()
	p.click(`[data-notice="gap"] button`)
	p.wait(`!document.querySelector("[data-notice]")`)
}

func TestARefusalSaysWhatToDo(t *testing.T) {
	t.Parallel()
	var signedOut atomic.Bool
	_, n, p, st := viaProxy(t, streamer.Options{Authorize: func(*http.Request) (streamer.Access, error) {
		if signedOut.Load() {
			return streamer.Access{}, streamer.ErrUnauthenticated
		}
		return streamer.Access{}, nil
	}})
	signedOut.Store(true)
	n.cut(true)
	p.wait(`document.querySelector("#connection").dataset.state === "refused"`)
	p.waitText("#trouble", "sign in first")
	p.waitText("#trouble", "Sign in again, in another tab if need be")
	succeed(t, st, "get_weather")
	signedOut.Store(false)
	p.click("#retry")
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	p.waitLive()
	assert.Zero(t, p.count("#trouble"))
}

// After a status other than 200, an EventSource never reconnects, but the page tries again.
func TestAServerThatIsFullIsAskedAgain(t *testing.T) {
	t.Parallel()
	s, n, p, st := viaProxy(t, streamer.Options{Clients: 1})
	n.block()
	p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
	other := occupy(t, s.url()+"events")
	n.wake()
	p.waitText("#trouble", "The server allows at most this many event streams: 1.")
	succeed(t, st, "get_weather")
	other()
	p.click("#retry")
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
}

// occupy opens the only stream that the server allows as soon as the stream is free, and keeps it
// open until leave is called.
func occupy(t *testing.T, url string) (leave func()) {
	t.Helper()
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		if resp.StatusCode == http.StatusOK {
			t.Cleanup(func() { _ = resp.Body.Close() })
			return func() { _ = resp.Body.Close() }
		}
		require.NoError(t, resp.Body.Close())
	}
}

// A hidden page closes its connection, because browsers allow only a few connections to
// a server and other pages need them.
func TestHiddenPageClosesItsConnection(t *testing.T) {
	t.Parallel()
	s, _, p, st := viaProxy(t, streamer.Options{})
	eval[bool](p, `{
		const real = Date.now;
		let later = 0, hidden = true;
		Date.now = () => real() + later;
		Object.defineProperty(document, "hidden", { get: () => hidden });
		document.dispatchEvent(new Event("visibilitychange"));
		later = 61_000;
		globalThis.see = () => { hidden = false; document.dispatchEvent(new Event("visibilitychange")); };
		true
	}`)
	p.wait(`document.querySelector("#connection").dataset.state === "resting"`)
	require.Eventually(t, func() bool { return s.dash.Stats().Clients == 0 }, patience, 10*time.Millisecond)
	succeed(t, st, "get_weather")
	eval[bool](p, `see(), true`)
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	p.waitLive()
	assert.Zero(t, p.count("[data-notice]"))
}
