package browser

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestPagesComeBackAtOnceAfterARestart restarts a server with many runs, and checks that its pages
// show their rows again, as well as a new run. With -long, there are 30 pages and 10,000 runs, and
// the test prints how long the pages and the server take.
func TestPagesComeBackAtOnceAfterARestart(t *testing.T) {
	t.Parallel()
	runs, pages := 300, 2
	var options streamer.Options
	if *long {
		runs, pages = 10_000, 30
		options.Reconnect = 500 * time.Millisecond // so that the pages do not use up the CPU time by reconnecting while the server is down
	}
	store := manyRuns(t, runs)
	s := newSite(t, stored.New(store), options, nil)
	tabs := make([]*tab, pages)
	for i := range tabs {
		tabs[i] = open(t, s.url())
		tabs[i].expectOutages()
		tabs[i].waitText(`#run-rows`, "order-")
	}
	s.stop()
	for _, p := range tabs {
		p.wait(`document.querySelector("#connection").dataset.state === "reconnecting"`)
	}
	before := make(map[*tab]int)
	for _, p := range tabs {
		eval[bool](p, watchReturn)
		before[p] = p.requested("api/runs")
	}
	_, err := store.Create(t.Context(), &snapshot.Run{Info: snapshot.Info{RunID: "fresh", Status: snapshot.StatusCompleted, Created: time.Now()}})
	require.NoError(t, err)
	s.start(stored.New(store), options, nil)
	began := time.Now()
	for _, p := range tabs {
		p.wait(`document.querySelector('[data-run="fresh"]')`)
		p.waitLive()
		p.wait(`document.querySelectorAll("#run-rows [data-run]").length === 200`)
		assert.Zero(t, eval[int](p, `performance.getEntriesByType("resource").filter(({ name }) => /\.(js|css)$/.test(name)).length`), "no module is loaded again")
		assert.LessOrEqual(t, p.requested("api/runs"), before[p]+4, "the first rows, the others, the questions, and once when the oldest run began")
	}
	if !*long {
		return
	}
	var asked, answered, shown, took []time.Duration
	for _, p := range tabs {
		times := eval[[3]float64](p, `globalThis.times`)
		for i, all := range []*[]time.Duration{&asked, &answered, &shown} {
			*all = append(*all, time.UnixMilli(int64(times[i])).Sub(began))
		}
		took = append(took, shown[len(shown)-1]-asked[len(asked)-1])
	}
	for what, all := range map[string][]time.Duration{"asked for rows": asked, "answered": answered, "shown": shown, "shown since each asked": took} {
		slices.Sort(all)
		t.Logf("%d pages, %d runs: %s after %v (the first), %v (the median), %v (the last)", pages, runs, what, all[0], all[pages/2], all[pages-1])
	}
}

// watchReturn records when a page requests the rows after a restart, when it has received them, and
// when it shows the run "fresh".
const watchReturn = `(() => {
	performance.clearResourceTimings();
	new MutationObserver((_, observer) => {
		if (!document.querySelector('[data-run="fresh"]')) return;
		observer.disconnect();
		const now = performance.now();
		const list = performance.getEntriesByType("resource").find(({ name }) => name.endsWith("api/runs?limit=50"));
		globalThis.times = [list.startTime, list.responseEnd, now].map((time) => performance.timeOrigin + time);
	}).observe(document.querySelector("#run-rows"), { childList: true });
	return true;
})()`

// medianTime makes 21 requests and returns the median of their times.
func medianTime(t *testing.T, url string) time.Duration {
	t.Helper()
	times := make([]time.Duration, 21)
	for i := range times {
		began := time.Now()
		resp, err := http.Get(url)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		times[i] = time.Since(began)
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// TestThePageKeepsUpWithManyEvents publishes many events while a page is open. With -long, it
// publishes 2,000 events a second for ten minutes, and prints how long frames take.
func TestThePageKeepsUpWithManyEvents(t *testing.T) {
	t.Parallel()
	rate, lasts := 500, 2*time.Second
	if *long {
		rate, lasts = 2000, 10*time.Minute
	}
	s := newSite(t, nil, streamer.Options{History: 100_000}, nil)
	p := open(t, s.url())
	eval[bool](p, `(() => {
		globalThis.frames = new Uint32Array(1000); // by their length in ms
		let last = performance.now();
		const frame = (time) => { frames[Math.min(999, Math.round(time - last))]++; last = time; requestAnimationFrame(frame); };
		requestAnimationFrame(frame);
		globalThis.percentile = (share) => {
			const all = frames.reduce((sum, n) => sum + n, 0);
			let seen = 0;
			return frames.findIndex((n) => (seen += n) >= all * share);
		};
		return true;
	})()`)
	heap := func() float64 { return eval[float64](p, `performance.memory.usedJSHeapSize / 1e6`) }
	var early float64
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	began, sent := time.Now(), 0
	for time.Since(began) < lasts {
		<-pace.C
		for want := int(time.Since(began).Seconds() * float64(rate)); sent < want; sent++ {
			s.dash.Publish(many(sent))
		}
		if early == 0 && time.Since(began) > lasts/4 {
			early = heap()
		}
	}
	succeed(t, begin(t, s.dash, "last"), "get_map")
	p.waitText(`[data-run="last"] .calls`, "1 ok")
	p.waitLive()
	assert.Less(t, p.count("*"), mostElements)
	assert.Zero(t, p.count("[data-notice]"), "nothing was missed")
	if *long {
		t.Logf("%d events in %v: frames %v ms at the median, %v ms at the 95th percentile, %v ms at the 99th; heap %.0f MB after a quarter, %.0f MB at the end",
			sent, lasts, eval[int](p, `percentile(0.5)`), eval[int](p, `percentile(0.95)`), eval[int](p, `percentile(0.99)`), early, heap())
	}
}

const eventsEach = 20 // records of a run in TestThePageKeepsUpWithManyEvents

// many returns record n, counted from 0, of a sequence of runs. Ten runs are executed at a time,
// with nine calls each.
func many(n int) record.Record {
	const together = 10
	block := n / (eventsEach * together)
	run, seq := block*together+n%together, n/together%eventsEach+1
	r := record.Record{RunID: fmt.Sprintf("run-%06d", run), Seq: uint64(seq), Generation: 1, Time: time.Now(), Kind: record.KindTool, Status: record.StatusStarted, MaxAttempts: 3}
	switch seq {
	case 1:
		r.Kind = record.KindRun
		return r
	case eventsEach:
		r.Kind, r.Status = record.KindRun, record.StatusCompleted
		return r
	}
	r.Address, _ = record.ParseAddress(fmt.Sprintf("get_map#%d", seq/2+1))
	r.Name = "get_map"
	if seq%2 == 1 {
		r.Status = record.StatusCompleted
	}
	return r
}
