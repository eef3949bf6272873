package browser

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/reprise-go/reprise/snapshot/memstore"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storetest"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestStoredRunsShowTrueFigures checks that the totals count all stored runs, and that the
// figures of each run are shown without reading its records.
func TestStoredRunsShowTrueFigures(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	tool := decorators.Tool("get_map", "fails for some", func(_ context.Context, in City) (string, error) {
		if in.Name == "Atlantis" {
			return "", core.Permanent(errors.New("no such city"))
		}
		return in.Name, nil
	})
	const runs, failed = 600, 150 // the oldest runs failed
	for i := range runs {
		st, err := state.Open(t.Context(), store, fmt.Sprintf("run-%03d", i), state.WithSync(state.SyncNever))
		require.NoError(t, err)
		city := City{"Oslo"}
		if i < failed {
			city.Name = "Atlantis"
		}
		_, _ = tool.Call(st.Context(t.Context()), city)
		require.NoError(t, st.Close())
	}
	s := newSite(t, stored.New(store), streamer.Options{}, nil)
	p := open(t, s.url())
	p.waitText(`[data-status="failed"].tile b`, "150")
	p.waitText(`[data-status="completed"].tile b`, "450")
	assert.Equal(t, "600", p.text("#runs-total"))
	p.wait(`document.querySelectorAll("[data-run]").length === 200`)
	assert.Zero(t, eval[int](p, `[...document.querySelectorAll("[data-run] .calls .first")].filter((cell) => cell.textContent.startsWith("0 ok")).length`))
	assert.Zero(t, eval[int](p, `[...document.querySelectorAll("[data-run] .calls .first")].filter((cell) => cell.textContent === "–").length`))

	p.click(`[data-status="failed"].tile`)
	p.wait(`document.querySelectorAll("[data-run]").length === 150`) // all of them
	assert.Equal(t, "150 of 600", p.text("#runs-total"))
	p.wait(`[...document.querySelectorAll("[data-run] .calls .first")].every((cell) => cell.textContent === "1 call, 1 failed" || cell.textContent === "0 ok, 1 failed")`)
	p.wait(`[...document.querySelectorAll("[data-run] .error")].every((cell) => cell.textContent.includes("no such city"))`)
	p.click(`[data-status="failed"].tile`)
	p.wait(`document.querySelectorAll("[data-run]").length === 200`)
}

// What a run did before it crashed is not known without its records, and must not be shown as zero.
func TestFiguresOfACrashedRunAreNotShownAsZero(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	records := storetest.Records(1, 4)
	run, err := (&snapshot.Snapshot{Info: snapshot.Info{RunID: "run", Status: snapshot.StatusRunning, Generation: 1}, Records: records}).Run()
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run) // no process has the run open
	require.NoError(t, err)
	p := open(t, newSite(t, stored.New(store), streamer.Options{}, nil).url())
	p.waitText(`[data-run="run"] .calls .first`, "–")
	p.waitText(`[data-run="run"] .usage .first`, "–")
	assert.NotContains(t, p.text(`[data-run="run"]`), "took")
}
