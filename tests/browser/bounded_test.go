package browser

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
)

const mostElements = 12_000 // elements on the page, regardless of the number of events

func TestThePageStaysSmallWithManyRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{History: 30_000}, nil)
	p := open(t, s.url())
	tool := decorators.Tool("get_map", "returns", func(ctx context.Context, in City) (string, error) {
		state.From(ctx).Log(slog.LevelInfo, "found", nil)
		return in.Name, nil
	})
	const runs, calls = 600, 11 // 35 records each
	for i := range runs {
		st := begin(t, s.dash, fmt.Sprintf("run-%d", i+1))
		for range calls {
			_, err := tool.Call(st.Context(t.Context()), City{"Oslo"})
			require.NoError(t, err)
		}
		require.NoError(t, st.Close())
	}
	p.waitText(`[data-status="completed"].tile b`, "600")
	assert.Equal(t, 200, p.count("[data-run]"))
	p.waitText("#runs-more", "Show more of 400")
	assert.Less(t, p.count("*"), mostElements)
	p.keys("/")
	p.keys("run-137")
	p.wait(`document.querySelectorAll("[data-run]").length === 1`)
}

func TestThePageStaysSmallWithOneLongRun(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{History: 30_000}, nil) // avoids a gap even on a slow machine
	st := begin(t, s.dash, "long")
	p := open(t, s.url()+"#run=long")
	failures := 0
	tool := decorators.Tool("get_map", "fails every third time", func(ctx context.Context, in City) (string, error) {
		if failures++; failures%3 != 0 {
			return "", core.Retryable(errBusy)
		}
		return in.Name, nil
	}, actors.WithRetry(core.RetryConfig{InitialDelay: core.NoDelay}))
	const calls = 2600 // 8 records each
	for range calls {
		_, err := tool.Call(st.Context(t.Context()), City{"Oslo"})
		require.NoError(t, err)
	}
	succeed(t, st, "last")
	p.wait(`document.querySelector('[data-call="last"]')`)
	p.wait(`document.querySelectorAll(".record").length === 200`)
	p.waitText(".callrow.loop", "× 2600")
	assert.Equal(t, 2, p.count("[data-call]"), "a loop is one line")
	p.click(".callrow.loop")
	p.wait(`document.querySelectorAll("[data-call]").length === 200`)
	assert.Equal(t, "2601", p.text("#calls-total"))
	assert.Less(t, p.count("*"), mostElements)
	p.click("#earlier")
	p.wait(`!document.querySelector('[data-call="last"]') && document.querySelectorAll("[data-call]").length === 200`)
	p.load(s.url() + "#run=long&call=" + url.QueryEscape("get_map#42"))
	p.wait(`document.querySelector(".callrow.selected").dataset.call === "get_map#42"`) // a link to a call opens its page
}

func TestOneCallWithManyAttemptsStaysInItsRow(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "stubborn")
	p := open(t, s.url()+"#run=stubborn")
	attempts := 0
	tool := decorators.Tool("get_map", "fails 5,000 times", func(context.Context, City) (string, error) {
		if attempts++; attempts <= 5000 {
			return "", core.Retryable(errBusy)
		}
		return "", nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: core.Unlimited, InitialDelay: core.NoDelay}))
	_, err := tool.Call(st.Context(t.Context()), City{"Oslo"})
	require.NoError(t, err)
	p.waitText(`[data-call="get_map"] .lane-state`, "5000 retries")
	assert.Less(t, p.count(".lane i"), 200)
	p.click(`[data-call="get_map"]`)
	p.waitText("#detail .attempts", "4941 earlier attempts no longer kept here")
	p.waitText("#detail", "5001 of ∞")
}
