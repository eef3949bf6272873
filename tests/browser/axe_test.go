package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

// violations returns the accessibility violations that axe-core finds on the page.
func (p *tab) violations() []string {
	p.t.Helper()
	source, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		p.t.Skip("skipped: run npm ci --prefix tests/browser first")
	}
	eval[bool](p, "("+`() => { if (!globalThis.axe) {`+string(source)+`}; return true }`+")()")
	return eval[[]string](p, `axe.run({ resultTypes: ["violations"] }).then(({ violations }) =>
		violations.flatMap(({ id, nodes }) => nodes.map((node) => id + ": " + node.html.slice(0, 160) + " " + node.failureSummary.replaceAll("\n", " "))))`)
}

// inspect checks that the page has no accessibility violations and is not wider than the screen, in
// the light and the dark theme, on a desktop and on phones. With -look, it saves screenshots
// instead of looking for violations.
func (p *tab) inspect(name string) {
	p.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390, 320} {
			p.colours(scheme)
			p.size(width, 800)
			p.wait(fmt.Sprintf(`innerWidth === %d`, width))
			// Wait until the colors have faded in.
			eval[bool](p, `new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve(true)), 300))`)
			assert.LessOrEqual(p.t, eval[float64](p, `document.documentElement.scrollWidth - innerWidth`), float64(0), "%s: %s, %d", name, scheme, width)
			if width != 320 {
				p.keep(fmt.Sprintf("%s-%s-%d.png", name, scheme, width))
			}
			if *look == "" {
				assert.Empty(p.t, p.violations(), "%s: %s, %d", name, scheme, width)
			}
		}
	}
	p.colours("light")
	p.size(1280, 800)
}

// widths returns the widths at which a view is checked in a color scheme: those of a desktop and a
// phone, or, with -long, of all phones.
func widths(scheme string) []int64 {
	switch {
	case *long:
		return []int64{1280, 390, 320}
	case scheme == "dark":
		return []int64{1280, 320}
	}
	return []int64{1280, 390}
}

// keep saves a screenshot of the tab if the flag -look is set.
func (p *tab) keep(name string) {
	p.t.Helper()
	if *look == "" {
		return
	}
	shot := call(p, page.CaptureScreenshot, page.CaptureScreenshotParams{})
	require.NoError(p.t, os.WriteFile(filepath.Join(*look, name), shot.Data, 0o600))
}

// TestNoViewHasABarrier checks each view with axe-core, in the dark and the light theme, wide and
// narrow.
func TestNoViewHasABarrier(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	ask(s, c, 3)
	st := begin(t, s.dash, "trip-1", state.WithMetadata(snapshot.Metadata{Description: strings.Repeat("a long description ", 40)}))
	st.Log(0, "packed", map[string]any{"bags": 2})
	succeed(t, st, "get_map")
	for _, name := range []string{"get_weather", "get_hotel", "get_train"} {
		waiting(t, st, name, time.Hour, core.Retryable(errBusy))
	}
	asking(t, begin(t, s.dash, "ticket-9"), "Refund?")
	words := make(speaker)
	converse(t, s.dash, "chat-1", words)
	words <- strings.Repeat("a long answer ", 200)
	done := begin(t, s.dash, "done-1")
	succeed(t, done, "get_map")
	require.NoError(t, done.Close())

	for _, view := range []struct{ name, at, ready, keys string }{
		{"all runs", "#", `document.querySelectorAll("[data-run]").length === 7 && document.querySelectorAll(".wait").length === 3`, ""},
		{"a search that finds nothing", "#q=nothing", `!document.querySelector("#runs-none").hidden`, ""},
		{"the keys", "#", `document.querySelector("[data-run]")`, "?"},
		{"a run", "#run=trip-1", `document.querySelectorAll("[data-call]").length === 4`, ""},
		{"a call", "#run=trip-1&call=get_weather", `!document.querySelector("#detail").hidden`, ""},
		{"to interrupt", "#run=trip-1", `!document.querySelector("#interrupt").hidden`, "i"},
		{"a run that ended", "#run=done-1", `document.querySelectorAll("[data-call]").length === 1`, ""},
		{"a run that asks", "#run=ticket-9", `document.querySelector(".question")`, ""},
		{"a run that produces", "#run=chat-1", `document.querySelector(".produced p")`, ""},
		{"no run", "#run=nobody", `document.querySelector("#connection").dataset.state === "missing"`, ""},
	} {
		t.Run(view.name, func(t *testing.T) {
			p := newTab(t)
			p.expectOutages() // the request for the run that does not exist fails
			p.load(s.url() + view.at)
			p.wait(view.ready)
			if view.keys != "" {
				p.keys(view.keys)
				p.wait(`document.querySelector("dialog[open]")`)
			}
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range widths(scheme) {
					p.colours(scheme)
					p.size(width, 800)
					// Wait until the colors have faded in.
					eval[bool](p, `new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve(true)), 300))`)
					assert.Empty(t, p.violations(), "%s, %d", scheme, width)
				}
			}
		})
	}
}

// TestFormsOfAnswersHaveNoBarrier checks an answered question, and the forms for objects, lists and
// calls in doubt while they show an error message.
func TestFormsOfAnswersHaveNoBarrier(t *testing.T) {
	t.Parallel()
	c := new(control)
	s := newSite(t, nil, streamer.Options{Control: c}, nil)
	askingFor[order](t, begin(t, s.dash, "order-1"), "What do you order?")
	askingFor[any](t, begin(t, s.dash, "order-2"), "What else?")
	asking(t, begin(t, s.dash, "order-3"), "Is that all?")
	dir, _ := inDoubt(t)
	for view, site := range map[string]*site{"objects and lists": s, "a call in doubt": siteOf(t, dir)} {
		t.Run(view, func(t *testing.T) {
			p := open(t, site.url())
			p.wait(`document.querySelector(".question .answer .send")`)
			p.settle()
			if view == "a call in doubt" {
				p.choose(".question .answer select", "it took effect")
			} else {
				p.click(".question:nth-child(3) .yes")
				p.waitText(".question:nth-child(3) .answer", "Answered")
				p.click(".question .add")
			}
			p.click(".question .send")
			p.waitText(".question .error", "this is needed")
			for _, scheme := range []string{"light", "dark"} {
				for _, width := range widths(scheme) {
					p.colours(scheme)
					p.size(width, 800)
					eval[bool](p, `new Promise((resolve) => setTimeout(() => requestAnimationFrame(() => resolve(true)), 300))`)
					assert.Empty(t, p.violations(), "%s, %d", scheme, width)
				}
			}
		})
	}
}
