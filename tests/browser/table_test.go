package browser

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// manyRuns returns a store with n runs. The oldest of them asks a question.
func manyRuns(t *testing.T, n int) *memstore.Store {
	t.Helper()
	store := memstore.New()
	asks := decorators.Agent("clerk", "asks", func(ctx context.Context, _ City) (string, error) {
		return core.Await[string](ctx, "Where to?")
	})
	st, err := state.Open(t.Context(), store, "oldest", state.WithMetadata(snapshot.Metadata{Description: "The very first trip"}))
	require.NoError(t, err)
	_, err = asks.Call(st.Context(t.Context()), City{"Oslo"})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())
	for i := range n - 1 {
		info := snapshot.Info{
			RunID: fmt.Sprintf("order-%05d", i), Status: snapshot.StatusCompleted, Program: "orders", Version: fmt.Sprint("v", i%3),
			Created: time.Now().Add(-time.Hour), Usage: record.Usage{InputTokens: 100 + i, Cost: float64(i%97) / 100},
			Summary: snapshot.Summary{Calls: 3, Retries: i % 5},
		}
		info.Metadata.Description = fmt.Sprint("Order number ", i)
		if i%100 == 7 {
			info.Status = snapshot.StatusFailed
			info.Summary.LastError = &snapshot.Failure{Address: "agent/pay#2", Class: "permanent", Message: "the card was refused", Time: time.Now().Add(-time.Hour)}
		}
		_, err := store.Create(t.Context(), &snapshot.Run{Info: info})
		require.NoError(t, err)
	}
	return store
}

const rowIDs = `[...document.querySelectorAll("#run-rows [data-run]")].map((row) => row.dataset.run)`

// TestAnyOfTenThousandRunsIsFound finds runs by their text, by sorting the list, by filters, and by
// their questions.
func TestAnyOfTenThousandRunsIsFound(t *testing.T) {
	t.Parallel()
	store := manyRuns(t, 10_000)
	s := newSite(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)}, nil)
	p := open(t, s.url())
	p.waitText("#runs-total", "10.0k")
	p.waitText(".question", "Where to?")
	assert.Equal(t, "1", p.text(".questions-head .count"))
	p.wait(`document.querySelectorAll("#run-rows [data-run]").length === 200`)
	p.waitText("[data-status=failed] b", "100")

	p.wait(`(document.querySelector("#runs-more").click(), true)`)
	p.wait(`document.querySelectorAll("#run-rows [data-run]").length === 400`)

	p.wait(`((input) => { input.value = "number 4711"; input.dispatchEvent(new Event("input")); return true })(document.querySelector("#search"))`)
	p.wait(`String(` + rowIDs + `) === "order-04711"`)
	p.waitText("#runs-total", "1 of 10.0k")

	p.wait(`(location.hash = "#q=very first", true)`)
	p.wait(`String(` + rowIDs + `) === "oldest"`)

	p.wait(`(location.hash = "#program=orders&version=v1", document.querySelector("[data-sort=tokens]").click(), true)`)
	p.wait(rowIDs + `[0] === "order-09997" && ` + rowIDs + `[1] === "order-09994"`)
	p.waitText("#runs-total", "3333 of 10.0k")
	assert.Equal(t, "descending", eval[string](p, `document.querySelector("[data-sort=tokens]").parentElement.getAttribute("aria-sort")`))
	p.wait(`(document.querySelector("[data-sort=tokens]").click(), true)`)
	p.wait(rowIDs + `[0] === "order-00001"`)

	p.wait(`(document.querySelector("#filters").open = true, document.querySelector("#view-name").value = "cheap", document.querySelector("#view-form button[type=submit]").click(), location.hash = "#class=permanent", true)`)
	p.waitText("#runs-total", "100 of 10.0k")
	p.waitText("#run-rows", "the card was refused")
	p.wait(`((select) => { select.value = "cheap"; select.dispatchEvent(new Event("change")); return true })(document.querySelector("#views"))`)
	p.wait(rowIDs + `[0] === "order-00001"`)
	p.click("#order") // reverse the order
	p.wait(rowIDs + `[0] === "order-09997"`)
	p.waitText("#order", "highest first")
	p.keys("\x1b")
	p.waitText("#runs-total", "10.0k") // Esc also clears the filters
	assert.Equal(t, "#sort=tokens", eval[string](p, `location.hash`))
	p.wait(`(location.hash = "#until=2026-01-02 15:04", true)`) // in the time zone of this machine
	p.waitText("#runs-total", "0 of 10.0k")
	assert.Empty(t, p.text("#runs-problem"))
	p.wait(`(location.hash = "#since=2026-01-02&sort=tokens", true)`)
	p.wait(rowIDs + `[0] === "order-09998"`)
	if assert.Empty(t, p.violations()); *long || *look != "" {
		p.inspect("ten-thousand")
	}
	p.expectOutages()
	p.wait(`(location.hash = "#since=yesterday", true)`)
	p.waitText("#runs-problem", "want a time such as")
	p.wait(`(location.hash = "#status=asleep&sort=colour", true)`)
	p.waitText("#runs-problem", `unknown status "asleep"; want one of`)
	eval[bool](p, `(() => {
		const real = globalThis.fetch;
		globalThis.fetch = (path, options) => {
			if (!String(path).includes("text=")) return real(path, options);
			globalThis.fetch = real;
			return Promise.reject(new DOMException("signal timed out", "TimeoutError"));
		};
		return (location.hash = "#q=number 12", true);
	})()`)
	p.waitText("#runs-problem", "the server did not answer in time")
	p.waitText("#runs-total", "≥ ")
	p.waitText("#runs-total", "111 of 10.0k") // tried again
	assert.Empty(t, p.text("#runs-problem"))
	for _, width := range []int64{1280, 390, 320} {
		p.size(width, 900)
		p.wait(fmt.Sprintf(`innerWidth === %d`, width))
		assert.LessOrEqual(t, eval[float64](p, `document.documentElement.scrollWidth - innerWidth`), float64(0), "%d wide", width)
		assert.Empty(t, eval[[]string](p, `[...document.querySelectorAll(".tile span")].filter((text) => text.scrollWidth > text.clientWidth).map((text) => text.textContent)`), "cut, %d wide", width)
	}
}
