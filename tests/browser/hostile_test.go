package browser

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

const planted = `<script>globalThis.pwned = true</script><img src=x onerror="globalThis.pwned = true">`

// Outputs, log messages and errors of tools are shown as text everywhere.
func TestWhatIsPlantedStaysText(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1", state.WithMetadata(snapshot.Metadata{Pipeline: planted, Description: planted}))
	// Tool names are validated, but a step can have any name.
	_, err := core.Step(st.Context(t.Context()), planted, func(ctx context.Context) (string, error) {
		state.From(ctx).Log(slog.LevelWarn, planted, map[string]any{planted: planted})
		return planted, nil
	})
	require.NoError(t, err)
	failing := decorators.Tool("fails", "fails with markup", func(context.Context, City) (string, error) { return "", errors.New(planted) })
	_, err = failing.Call(st.Context(t.Context()), City{planted})
	require.Error(t, err)
	waiting(t, st, "waits", time.Hour, core.Retryable(errors.New(planted)))
	asked := begin(t, s.dash, "asks-1")
	asking(t, asked, planted)

	p := open(t, s.url())
	p.waitText(`[data-run="trip-1"] .run .second`, planted)
	p.waitText(`[data-run="trip-1"] .error .second`, planted)
	p.waitText(".wait .message", planted)
	p.waitText(".question", planted)

	p.load(s.url() + "#run=trip-1")
	p.waitText("#run-description", planted)
	p.wait(`document.querySelectorAll(".callrow").length === 3`)
	for _, row := range []string{"step", "fails", "waits"} {
		p.click(`.callrow[data-call^="` + row + `"]`)
		p.wait(`document.querySelector(".callrow.selected").dataset.call.startsWith("` + row + `")`)
		p.waitText("#detail", planted)
	}
	p.wait(`document.querySelectorAll(".record").length >= 9`)
	assert.False(t, eval[bool](p, `"pwned" in globalThis`))
	assert.Zero(t, p.count(`main script, main img, main [onerror]`))
}

const turned = "a\u202eb\x07c\u2066d" // would reverse the direction of text, and ring the bell

// Invisible characters, and characters that change the direction of text, are made visible in texts
// from all sources.
func TestCharactersThatAreNotSeenAreShownAsWhatTheyAre(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1", state.WithMetadata(snapshot.Metadata{Pipeline: turned, Description: turned}))
	_, err := core.Step(st.Context(t.Context()), "pack", func(ctx context.Context) (string, error) {
		state.From(ctx).Log(slog.LevelWarn, turned, map[string]any{turned: turned})
		return turned, nil
	})
	require.NoError(t, err)
	waiting(t, st, "waits", time.Hour, core.Retryable(errors.New(turned)))
	asking(t, begin(t, s.dash, "asks-1"), turned)

	p := open(t, s.url())
	check := func() {
		t.Helper()
		assert.Empty(t, eval[[]string](p, `[...document.querySelectorAll("*")].flatMap((element) =>
			[...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data).concat(["title", "aria-label"].map((name) => element.getAttribute(name) ?? "")))
			.filter((text) => /[\u0000-\u0008\u202a-\u202e\u2066-\u2069]/.test(text))`))
	}
	const shown = `a\u202eb\x07c\u2066d`
	for _, place := range []string{`[data-run="trip-1"] .run .second`, `[data-run="trip-1"] .error .second`, ".wait .message", ".question"} {
		p.waitText(place, shown)
	}
	check()
	p.load(s.url() + "#run=trip-1")
	p.waitText("#run-description", shown)
	p.click(`.callrow[data-call^="step"]`)
	p.waitText("#detail", shown)
	check()
	p.click(`.callrow[data-call="waits"]`)
	p.waitText("#detail .attempts", shown)
	check()
	assert.Equal(t, 3, p.count("#legend > :not([hidden])"), "the legend explains the colours of the page: completed, failed and tried again, backoff")
}

// Run IDs are validated, but the address of the page can be any text.
func TestAnAddressThatIsPlantedStaysText(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := newTab(t)
	p.expectOutages() // the run does not exist
	p.load(s.url() + `#run=..%2F..%2F%3Cimg%20src%3Dx%20onerror%3DglobalThis.pwned%3Dtrue%3E&call=%3Cscript%3E&q=%3Cb%3E&range=x&records=x&only=x`)
	p.wait(`document.querySelector("#connection").dataset.state === "missing"`)
	p.waitText("#run-title", "../../<img src=x")
	assert.False(t, eval[bool](p, `"pwned" in globalThis`))
	assert.Zero(t, p.count("main img"))
}
