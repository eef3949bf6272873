package browser

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/core/httperror"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

func TestARunAppearsAndEndsWhileThePageIsOpen(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := open(t, s.url())
	p.waitText("#runs-none", "No run yet")

	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_weather")
	p.wait(`document.querySelector('[data-run="trip-1"]').dataset.status === "running"`)
	require.NoError(t, st.Close())
	p.wait(`document.querySelector('[data-run="trip-1"]').dataset.status === "completed"`)
	p.waitText(`[data-run="trip-1"] .calls`, "1 ok")
}

func TestEventsArriveByTheirNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := open(t, s.url())
	eval[bool](p, `globalThis.names = [], (() => {
		const source = new EventSource("events");
		for (const name of ["run_started", "started", "failed", "retrying", "interrupted", "recorded", "run_interrupted"])
			source.addEventListener(name, (event) => names.push(event.type + " " + JSON.parse(event.data).run_id));
		return new Promise((resolve) => source.onopen = () => resolve(true));
	})()`)
	st := begin(t, s.dash, "trip-1")
	st.Log(slog.LevelInfo, "packed", nil)
	waiting(t, st, "get_weather", time.Hour, core.Retryable(errBusy))
	p.wait(`names.includes("retrying trip-1")`)
	require.NoError(t, st.Close())
	p.wait(`names.length === 7`)
	assert.Equal(t, []string{
		"run_started trip-1", "recorded trip-1", "started trip-1", "failed trip-1", "retrying trip-1", "interrupted trip-1", "run_interrupted trip-1",
	}, eval[[]string](p, `names`))
}

func TestAWaitingCallShowsForHowLongAndWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	waiting(t, begin(t, s.dash, "by-backoff"), "get_weather", 1000*time.Second, &httperror.Error{Code: 503, Excerpt: "overloaded"})
	waiting(t, begin(t, s.dash, "by-service"), "pay", time.Second, &httperror.Error{Code: 429, After: 40 * time.Second, Excerpt: "slow down"})
	p := open(t, s.url())

	p.wait(`document.querySelectorAll(".wait").length === 2`)
	first, second := p.text(".wait:nth-child(1)"), p.text(".wait:nth-child(2)")
	assert.Contains(t, first, "pay", "the next comes first")
	assert.Contains(t, first, "attempt 2 of 5")
	assert.Contains(t, first, "Retry-After 40 s")
	assert.Contains(t, first, "rate limit")
	assert.Contains(t, first, "429 Too Many Requests: slow down")
	assert.Contains(t, second, "backoff 16 m 40 s")
	assert.Contains(t, second, "server")
	assert.Equal(t, "2", p.text("#waiting-total"))
	assert.Contains(t, p.text("#waiting-when"), "in 2 runs")
	p.waitText(`[data-run="by-service"] .now`, "pay2 of 5")
}

func TestTheCountdownCountsByTheServersClock(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	waiting(t, begin(t, s.dash, "trip-1"), "get_weather", 50*time.Second, core.Retryable(errBusy))
	p := newTab(t)
	p.before(`{ const real = Date.now; Date.now = () => real() - 3600_000; }`) // the browser's clock is an hour slow
	p.load(s.url())
	p.waitLive()
	left := func() float64 {
		number, err := strconv.ParseFloat(strings.TrimSuffix(p.text(".wait .left"), " s"), 64)
		require.NoError(t, err)
		return number
	}
	p.wait(`document.querySelector(".wait .left").textContent.endsWith(" s")`)
	before := left()
	assert.Less(t, before, 50.1)
	p.wait(fmt.Sprintf(`parseFloat(document.querySelector(".wait .left").textContent) < %v`, before-0.5))
	p.wait(fmt.Sprintf(`parseFloat(document.querySelector('[data-run="trip-1"] .left').textContent) < %v`, before-0.5))
}

func TestARunShowsItsCallsOverTime(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_map")
	p := open(t, s.url()+"#run=trip-1")
	p.waitText(`[data-call="get_map"] .lane-state`, "ms")
	waiting(t, st, "get_weather", time.Hour, &httperror.Error{Code: 503, Excerpt: "overloaded"})
	p.waitText(`[data-call="get_weather"] .lane-state`, "2 of 5 in")
	p.wait(`document.querySelectorAll('[data-call="get_weather"] .b-retried').length === 1`)
	p.wait(`document.querySelectorAll('[data-call="get_weather"] .b-backoff').length === 1`)

	p.click(`[data-call="get_weather"]`)
	p.waitText("#detail", "503 Service Unavailable: overloaded")
	p.waitText("#detail", "waits 1 h 00 m by backoff, next attempt in")
	p.waitText("#detail pre", "Oslo")
	assert.Contains(t, eval[string](p, `location.hash`), "call=get_weather", "what is shown can be linked")

	require.NoError(t, st.Close())
	p.waitText("#run-status", "interrupted")
	p.waitText("#run-banner", "Interrupted")
	p.wait(`document.querySelectorAll(".record").length === 8`)
}

func TestFiltersAreInTheAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	for _, id := range []string{"done-1", "done-2"} {
		st := begin(t, s.dash, id)
		succeed(t, st, "get_map")
		require.NoError(t, st.Close())
	}
	waiting(t, begin(t, s.dash, "stuck-1"), "get_weather", time.Hour, core.Retryable(errBusy))
	p := open(t, s.url())
	p.wait(`document.querySelectorAll("[data-run]").length === 3`)
	p.click(`[data-status="completed"].tile`)
	p.wait(`document.querySelectorAll("[data-run]").length === 2 && location.hash === "#status=completed"`)
	p.keys("/")
	p.keys("done-2")
	p.wait(`document.querySelectorAll("[data-run]").length === 1 && location.hash === "#status=completed&q=done-2"`)
	p.load("about:blank")
	p.load(s.url() + "#status=waiting&q=busy")
	p.wait(`document.querySelectorAll("[data-run]").length === 1 && document.querySelector('[data-run="stuck-1"]')`)
	assert.Equal(t, "busy", eval[string](p, `document.querySelector("#search").value`))
}

func TestAPauseFreezesThePageAndCountsWhatArrives(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	succeed(t, st, "get_map")
	p := open(t, s.url())
	p.waitText(`[data-run="trip-1"] .calls`, "1 ok")
	p.keys("p")
	p.waitText("#behind", "0 events since")
	succeed(t, st, "get_weather")
	p.waitText("#behind", "2 events since")
	assert.Equal(t, "1 ok", p.text(`[data-run="trip-1"] .calls`))
	p.keys("p")
	p.waitText(`[data-run="trip-1"] .calls`, "2 ok")
}

func TestEverythingIsReachedFromTheKeyboard(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	waiting(t, begin(t, s.dash, "trip-1"), "get_weather", time.Hour, core.Retryable(errBusy))
	p := open(t, s.url())
	p.wait(`document.querySelectorAll("[data-run]").length === 1 && document.querySelector(".wait")`)
	p.keys("jj")
	p.wait(`document.activeElement.textContent === "trip-1"`)
	p.keys("\r")
	p.wait(`location.hash === "#run=trip-1" && document.querySelector("[data-call]")`)
	p.keys("j\r")
	p.waitText("#detail-title", "get_weather")
	p.keys("\u001b")
	p.wait(`document.querySelector("#detail").hidden`)
	p.keys("?")
	p.wait(`document.querySelector("#keys").open`)
	p.keys("\u001b")
	p.wait(`!document.querySelector("#keys").open`)
	p.keys("\u001b")
	p.wait(`!document.querySelector("#overview").hidden`)
	p.keys("t")
	p.wait(`document.documentElement.dataset.theme === "dark"`)
}

// The browser revalidates the page in its cache, and the server does not send the page again.
func TestThePageIsSentOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	for _, name := range []string{"", "app.js", "base.css", "icon.svg"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url()+name, nil)
		require.NoError(t, err)
		first, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, first.Body.Close())
		assert.Equal(t, http.StatusOK, first.StatusCode, name)
		assert.NotEmpty(t, first.Header.Get("Content-Type"), name)
		req.Header.Set("If-None-Match", first.Header.Get("ETag"))
		second, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, second.Body.Close())
		assert.Equal(t, http.StatusNotModified, second.StatusCode, name)
	}
}

func TestNothingIsWiderThanThePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{Control: new(control)}, nil)
	long := strings.Repeat("averylongnamewithoutaspace", 8)
	st := begin(t, s.dash, "trip-"+strings.Repeat("1", 100), state.WithMetadata(snapshot.Metadata{Description: long}))
	waiting(t, st, "get_weather", time.Hour, core.Retryable(errors.New(long)))
	asking(t, begin(t, s.dash, "ticket-1"), long+"?")
	p := open(t, s.url())
	for _, at := range []string{"#", "#run=trip-" + strings.Repeat("1", 100) + "&call=get_weather"} {
		p.load(s.url() + at)
		p.wait(`document.querySelector("[data-wait], [data-call]")`)
		for _, width := range []int64{360, 768, 1280} {
			p.size(width, 800)
			p.wait(fmt.Sprintf(`innerWidth === %d`, width))
			assert.LessOrEqual(t, eval[int64](p, `document.documentElement.scrollWidth`), width, "%s at %d", at, width)
		}
	}
}

// A group shows the number of its branches from the beginning.
func TestAGroupShowsItsProgress(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	release := make(chan struct{})
	defer close(release)
	tool := decorators.Tool("get_weather", "waits for the third city", func(ctx context.Context, in City) (string, error) {
		if in.Name == "Rome" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return in.Name, ctx.Err()
	})
	background(t, func() {
		_, _ = actors.Map(st.Context(t.Context()), actors.Group{Name: "cities", Workers: 1}, tool, []City{{"Oslo"}, {"Riga"}, {"Rome"}, {"Bonn"}, {"Cork"}})
	})
	t.Cleanup(func() { _ = st.Close() })
	p := open(t, s.url()+"#run=trip-1")
	p.waitText(`[data-call="group:cities"]`, "2 of 5 branches done")
	p.waitText(`[data-call="group:cities/3"]`, "get_weather")
	p.click(`[data-call="group:cities"]`)
	p.waitText("#detail", "2 of 5 done")
	assert.Equal(t, "2", eval[string](p, `document.querySelector('[data-call="group:cities/3"]').getAttribute("aria-level")`))
}
