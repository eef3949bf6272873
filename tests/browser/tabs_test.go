package browser

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core/live"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/streamer"
)

// another opens another tab in the same browser context, so that both tabs can share a worker.
func (p *tab) another(url string) *tab {
	p.t.Helper()
	ctx, cancel := chromedp.NewContext(p.ctx)
	p.t.Cleanup(cancel)
	other := &tab{t: p.t, ctx: ctx}
	require.NoError(p.t, chromedp.Listen(ctx, other.listen))
	call(other, network.Enable, network.EnableParams{})
	call(other, log.Enable, cdp.Empty{})
	p.t.Cleanup(other.check)
	other.load(url)
	return other
}

// protocols counts the requests to a site by their HTTP version.
type protocols struct {
	mu  sync.Mutex
	all map[string]int
}

func (p *protocols) note(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		p.mu.Lock()
		p.all[req.Proto]++
		p.mu.Unlock()
		next.ServeHTTP(w, req)
	})
}

// TestManyTabsShareOneStream uses HTTP/1.1, with which browsers open at most six connections to a
// server. The tabs show all runs, or single runs with the output of their calls. The ninth tab
// works like the first one, and the stream ends when the last tab is closed.
func TestManyTabsShareOneStream(t *testing.T) {
	t.Parallel()
	seen := &protocols{all: make(map[string]int)}
	s := newSite(t, nil, streamer.Options{}, seen.note)
	address, err := record.ParseAddress("model")
	require.NoError(t, err)
	const runs = 6
	for i := range runs {
		succeed(t, begin(t, s.dash, fmt.Sprint("trip-", i)), "get_map")
	}
	first := open(t, s.url())
	tabs := []*tab{first, first.another(s.url()), first.another(s.url() + "#status=running")}
	for i := range runs {
		tabs = append(tabs, first.another(fmt.Sprint(s.url(), "#run=trip-", i)))
	}
	for _, p := range tabs {
		p.waitLive()
	}
	assert.Equal(t, 1, s.dash.Stats().Clients, "one stream for %d tabs", len(tabs))
	assert.Zero(t, seen.all["HTTP/2.0"])

	succeed(t, begin(t, s.dash, "after"), "get_map")
	for _, p := range tabs[:3] {
		p.waitText(`[data-run="after"] .calls`, "1 ok")
	}
	for i, p := range tabs[3:] {
		s.dash.PublishDelta(live.Delta{RunID: fmt.Sprint("trip-", i), Address: address, Part: live.PartText, Text: fmt.Sprint("word ", i)})
		p.waitText("#producing-rows", fmt.Sprint("word ", i))
		assert.Equal(t, 1, p.count("#producing-rows > li"), "only of this run")
	}
	assert.LessOrEqual(t, int(s.dash.Stats().Accepted), 3*len(tabs))
	assert.Zero(t, int(s.dash.Stats().Gaps+s.dash.Stats().Resets))

	// If one tab leaves the page, the others keep the stream. When that tab comes back, it receives
	// events again.
	tabs[1].load("about:blank")
	tabs[3].load(s.url() + "#run=trip-1")
	tabs[3].waitText("#producing-rows", "word 1")
	succeed(t, begin(t, s.dash, "last"), "get_map")
	first.waitText(`[data-run="last"] .calls`, "1 ok")
	for _, p := range tabs {
		p.load("about:blank")
	}
	require.Eventually(t, func() bool { return s.dash.Stats().Clients == 0 }, patience, 10*time.Millisecond)
}

// TestTabsComeBackTogether restarts the server. Afterwards, each tab must show the runs of the new
// server.
func TestTabsComeBackTogether(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	succeed(t, begin(t, s.dash, "trip-1"), "get_map")
	first := open(t, s.url())
	tabs := []*tab{first, first.another(s.url()), first.another(s.url() + "#run=trip-1")}
	for _, p := range tabs {
		p.expectOutages()
		p.waitLive()
	}
	s.stop()
	for _, p := range tabs {
		p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
	}
	s.start(nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_hotel")
	succeed(t, st, "get_map")
	for _, p := range tabs[:2] {
		p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
	}
	tabs[2].wait(`document.querySelectorAll("[data-call]").length === 2`)
	for _, p := range tabs {
		p.waitLive()
	}
	assert.Equal(t, 1, s.dash.Stats().Clients)
}

// TestATabWithoutSharingHasAStreamOfItsOwn checks a tab in a browser without shared workers. Such a
// tab closes its stream as soon as it is hidden.
func TestATabWithoutSharingHasAStreamOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_map")
	p := newTab(t)
	p.before(`delete globalThis.SharedWorker`)
	p.load(s.url() + "#run=trip-1")
	p.waitLive()
	succeed(t, st, "get_weather")
	p.wait(`document.querySelectorAll("[data-call]").length === 2`)
	assert.Equal(t, 1, p.requested("events"))
	eval[bool](p, `Object.defineProperty(document, "hidden", { get: () => true, configurable: true }), document.dispatchEvent(new Event("visibilitychange")), true`)
	p.wait(`document.querySelector("#connection").dataset.state === "resting"`)
	require.Eventually(t, func() bool { return s.dash.Stats().Clients == 0 }, patience, 10*time.Millisecond)
	succeed(t, st, "get_hotel")
	eval[bool](p, `delete document.hidden, document.dispatchEvent(new Event("visibilitychange")), true`)
	p.wait(`document.querySelectorAll("[data-call]").length === 3`)
}

// TestQuestionNotifiesUsersWhoWantNotifications checks the notifications about runs that ask or
// fail, including those while the tab is hidden for a long time. Without the user's consent, there
// are none.
func TestQuestionNotifiesUsersWhoWantNotifications(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := newTab(t)
	p.before(`globalThis.told = [];
		globalThis.Notification = class {
			static permission = "default";
			static async requestPermission() { return Notification.permission = "granted"; }
			constructor(title, { body, tag }) { told.push([title, body, tag].join("|")); }
			close() {}
		};
		globalThis.hide = (hidden) => { Object.defineProperty(document, "hidden", { get: () => hidden, configurable: true }); document.dispatchEvent(new Event("visibilitychange")); };`)
	p.load(s.url())
	p.waitLive()
	eval[bool](p, `hide(true), true`)
	asking(t, begin(t, s.dash, "ask-1"), "First?")
	p.waitText(".question", "First?")
	eval[bool](p, `hide(false), true`)
	p.click("#notify")
	p.waitText("#notify-text", "Notifies you")
	asking(t, begin(t, s.dash, "ask-2"), "Second?")
	p.wait(`document.querySelectorAll(".question").length === 2`)
	eval[bool](p, `hide(true), (() => { const real = Date.now; Date.now = () => real() + 61_000; return true })()`)
	asking(t, begin(t, s.dash, "ask-3"), "Third \u202e?")
	p.wait(`told.length === 1`)
	s.dash.Publish(record.Record{RunID: "fail-1", Seq: 1, Generation: 1, Time: time.Now(), Kind: record.KindRun, Status: record.StatusStarted})
	s.dash.Publish(record.Record{RunID: "fail-1", Seq: 2, Generation: 1, Time: time.Now(), Kind: record.KindRun, Status: record.StatusFailed, Err: errBusy})
	p.wait(`told.length === 2`)
	assert.Equal(t, []string{`Run ask-3 asks|Third \u202e?|ask-3 clerk?1`, "Run fail-1 failed|the service is busy|fail-1 failed"}, eval[[]string](p, `told`))
	eval[bool](p, `hide(false), true`)
	p.click("#notify")
	p.waitText("#notify-text", "Notify me")
	assert.Equal(t, "off", eval[string](p, `localStorage.getItem("reprise-notify")`))
}
