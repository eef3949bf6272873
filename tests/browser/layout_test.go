package browser

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// TestDetailPanelDoesNotCoverOtherPanels checks the page at several widths.
func TestDetailPanelDoesNotCoverOtherPanels(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1", state.WithMetadata(snapshot.Metadata{Description: strings.Repeat("a long description ", 60)}))
	for i := range 30 {
		succeed(t, st, fmt.Sprintf("get_map_%d", i))
	}
	waiting(t, st, "get_weather", time.Hour, core.Retryable(errBusy))
	p := open(t, s.url()+"#run=trip-1&call=get_weather")
	p.waitText("#detail", "next attempt")
	for _, width := range []int64{390, 900, 1280} {
		p.size(width, 800)
		p.wait(fmt.Sprintf(`innerWidth === %d`, width))
		covered := eval[[]string](p, `(() => {
			const panel = document.querySelector("#detail").getBoundingClientRect();
			return [...document.querySelectorAll("#run > :not(#detail):not([hidden]), .parts > :not([hidden])")].filter((other) => {
				const rect = other.getBoundingClientRect();
				return rect.width > 0 && rect.left < panel.right - 1 && rect.right > panel.left + 1 && rect.top < panel.bottom - 1 && rect.bottom > panel.top + 1;
			}).map((other) => other.className || other.id);
		})()`)
		assert.Empty(t, covered, "%d wide", width)
		if width == 1280 {
			assert.InDelta(t, 0, eval[float64](p, `scrollTo(0, 0), document.querySelector("#detail").getBoundingClientRect().top - document.querySelector("#calls").getBoundingClientRect().top`), 1, "the panel is beside the calls")
		}
		lines := eval[float64](p, `(() => {
			const description = document.querySelector("#run-description");
			return description.getBoundingClientRect().height / parseFloat(getComputedStyle(description).lineHeight);
		})()`)
		assert.InDelta(t, 3, lines, 0.2, "%d wide: the description is cut after three lines", width)
	}
}

// TestTheAttemptOfAWaitingCallIsShownInFull checks that the text about an attempt is not cut off
// while its row has room for it.
func TestTheAttemptOfAWaitingCallIsShownInFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	for i, most := range []int{5, 100, 100_000} {
		st := begin(t, s.dash, fmt.Sprint("trip-", i), state.WithRetryForActor("pay", core.RetryConfig{MaxAttempts: most, InitialDelay: time.Hour, MaxDelay: time.Hour}))
		waiting(t, st, "pay", time.Hour, core.Retryable(errBusy))
	}
	p := open(t, s.url())
	p.wait(`document.querySelectorAll(".wait").length === 3`)
	for _, width := range []int64{390, 900, 1280} {
		p.size(width, 800)
		p.wait(fmt.Sprintf(`innerWidth === %d`, width))
		cut := eval[[]string](p, `[...document.querySelectorAll(".wait .attempt")].filter((cell) => cell.scrollWidth > cell.clientWidth).map((cell) => cell.textContent)`)
		assert.Empty(t, cut, "%d wide", width)
	}
}

func TestFiguresInTilesStayOnOneLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	succeed(t, begin(t, s.dash, "trip-1"), "get_map")
	p := open(t, s.url()+"#status=queued,cancelled") // shows the rare tiles, too
	p.wait(`document.querySelectorAll(".tile").length === 11`)
	for _, width := range []int64{900, 1100, 1300} {
		p.size(width, 800)
		p.wait(fmt.Sprintf(`innerWidth === %d`, width))
		heights := eval[[]float64](p, `(() => {
			const figures = [...document.querySelectorAll(".tile b")];
			const [tokens, cost] = figures.slice(-2);
			tokens.textContent = "≥ ~6890";
			cost.textContent = "≥ ~12.34 EUR";
			return figures.map((figure) => figure.getBoundingClientRect().height);
		})()`)
		for _, height := range heights {
			assert.InDelta(t, heights[0], height, 1, "%d wide", width)
		}
		assert.Zero(t, eval[int](p, `[...document.querySelectorAll(".tile")].filter((tile) => tile.scrollWidth > tile.clientWidth).length`), "%d wide: nothing is cut", width)
	}
	p.keep("tiles.png")
}
