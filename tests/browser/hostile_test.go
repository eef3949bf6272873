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
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

const planted = `<script>globalThis.pwned = true</script><img src=x onerror="globalThis.pwned = true">`

// Whatever a tool returns, logs or fails with stays text, wherever it is shown.
func TestWhatIsPlantedStaysText(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1", state.WithMetadata(state.Metadata{Pipeline: planted, Description: planted}))
	// The names of tools are checked, those of steps are anything.
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

// A run ID cannot be anything, but the address of the page can.
func TestAnAddressThatIsPlantedStaysText(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	p := newTab(t)
	p.expectOutages() // there is no such run
	p.load(s.url() + `#run=..%2F..%2F%3Cimg%20src%3Dx%20onerror%3DglobalThis.pwned%3Dtrue%3E&call=%3Cscript%3E&q=%3Cb%3E&range=x&records=x&only=x`)
	p.wait(`document.querySelector("#connection").dataset.state === "missing"`)
	p.waitText("#run-title", "../../<img src=x")
	assert.False(t, eval[bool](p, `"pwned" in globalThis`))
	assert.Zero(t, p.count("main img"))
}
