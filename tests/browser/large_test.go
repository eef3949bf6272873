package browser

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// large makes a run with the given number of calls and keeps it open. In the run, an agent calls a
// model and a tool in turn, and every 1,000th call of the tool fails.
func large(t *testing.T, store *memstore.Store, s *site, calls int) *state.ExecutionState {
	t.Helper()
	st, err := state.Open(t.Context(), store, "large", state.WithSync(state.SyncNever), state.WithPublisher(s.dash))
	require.NoError(t, err)
	model := decorators.Tool("claude", "answers", func(_ context.Context, in City) (string, error) { return in.Name, nil })
	n := 0
	tool := decorators.Tool("get_map", "fails at times", func(_ context.Context, in City) (string, error) {
		if n++; n%1000 == 0 {
			return "", core.Permanent(fmt.Errorf("no map number %d", n))
		}
		return in.Name, nil
	})
	assistant := decorators.Agent("assistant", "calls", func(ctx context.Context, in City) (string, error) {
		for range (calls - 1) / 2 {
			if _, err := model.Call(ctx, in); err != nil {
				return "", err
			}
			_, _ = tool.Call(ctx, in)
		}
		return "done", nil
	})
	_, err = assistant.Call(st.Context(t.Context()), City{"Oslo"})
	require.NoError(t, err)
	t.Cleanup(func() { _ = st.Close() })
	return st
}

// TestARunOf50000CallsIsShownCorrectly checks that, for such a run, the page shows the counts, a
// time axis from the beginning of the run, loops as single lines and, on demand, each part of the
// run.
func TestARunOf50000CallsIsShownCorrectly(t *testing.T) {
	t.Parallel()
	const calls = 50_001
	store := memstore.New()
	s := newSite(t, stored.New(store), streamer.Options{}, nil)
	st := large(t, store, s, calls)
	for range 15 {
		waiting(t, st, "get_hotel", time.Hour, core.Retryable(errBusy))
	}
	p := open(t, s.url()+"#run=large")
	p.waitText("#run-facts", "50.0k ok, 25 failed")
	p.waitText("#calls-total", " of 50,016")
	p.waitText(".callrow.loop[data-call*=claude] .hint", "× ")
	p.waitText(".callrow.loop[data-call*=get_hotel] .hint", "× 15 wait: ")
	p.waitText("#window-text", "are loaded")
	p.wait(`document.querySelector('#grid-lines .break[title="not loaded"]').offsetWidth > 0`)
	assert.Less(t, p.count("*"), mostElements)
	p.inspect("large")

	p.click(".callrow.loop[data-call*=get_hotel]")
	p.wait(`document.querySelectorAll('[data-call^="get_hotel"]').length === 15`)

	text := p.text("#window-text")
	p.click("#window-earlier")
	p.wait(`document.querySelector("#window-text").textContent !== ` + quote(text))
	p.waitText(`[data-call="assistant"] .lane-state`, "began earlier")
	eval[bool](p, `((place) => {
		place.value = 1;
		place.dispatchEvent(new Event("input"));
		place.value = 5000; // as when the page is drawn again
		return true;
	})(document.querySelector("#window-place"))`)
	p.waitText("#window-text", "Records 1 to 1 ")
	p.click("#window-later")
	p.waitText("#window-text", "Records 2 to 5,001 ")
	p.keys("n")
	p.waitText("#detail", "no map number 1000")
	p.waitText(".callrow.selected", "get_map")
	p.keys("n") // the next failed call is in another part of the run
	p.waitText("#detail", "no map number 2000")
	p.keys("N")
	p.waitText("#detail", "no map number 1000")
	p.waitText(".callrow.selected", "get_map")
	p.inspect("large-failure")
	p.keys("\x1b")
	// The details close and thereby move the button, so a single click may come too early.
	p.wait(`(document.querySelector("#window-newest").click(), document.querySelector("#window-newest").disabled)`)
	p.waitText(".callrow.loop[data-call*=get_hotel] .hint", "× 15 wait: ")
}

// TestTheErrorThatFailedFirstIsMarked checks that the original error is marked, below the calls
// that failed because of it.
func TestTheErrorThatFailedFirstIsMarked(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	fail := func(name, text string) func(context.Context, City) (string, error) {
		tool := decorators.Tool(name, "fails", func(context.Context, City) (string, error) { return "", core.Permanent(errors.New(text)) })
		return tool.Call
	}
	weather, hotel := fail("get_weather", "no wind"), fail("get_hotel", "no room")
	agent := decorators.Agent("assistant", "fails", func(ctx context.Context, in City) (string, error) {
		_, first := weather(ctx, in)
		_, second := hotel(ctx, in)
		return "", errors.Join(second, first)
	})
	_, err := agent.Call(st.Context(t.Context()), City{"Oslo"})
	require.Error(t, err)
	require.NoError(t, st.Close())
	p := open(t, s.url()+"#run=trip-1")
	p.waitText(".callrow.origin .hint", "failed first")
	assert.Equal(t, "assistant/get_weather", eval[string](p, `document.querySelector(".callrow.origin").dataset.call`))
	assert.Equal(t, 1, p.count(".callrow.origin"))
	p.keys("n")
	p.wait(`document.querySelector(".callrow.selected")?.dataset.call === "assistant"`)
	p.keys("nn")
	p.wait(`document.querySelector(".callrow.selected")?.dataset.call === "assistant/get_hotel"`)
	p.keys("N")
	p.wait(`document.querySelector(".callrow.selected")?.dataset.call === "assistant/get_weather"`)
}

// TestAQueuedRunSaysWhenItBegins checks the page and the list entry of a run that is not due yet.
func TestAQueuedRunSaysWhenItBegins(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	due := time.Now().Add(time.Hour)
	run, err := snapshot.NewRun(snapshot.Info{RunID: "later", Status: snapshot.StatusQueued, Program: "echo", Version: "1", Due: due}, nil)
	require.NoError(t, err)
	_, err = store.Create(t.Context(), run)
	require.NoError(t, err)
	s := newSite(t, stored.New(store), streamer.Options{}, nil)
	p := open(t, s.url()+"#run=later")
	p.waitText("#run-facts", "Begins")
	p.waitText("#run-facts", "in 59 m ")
	assert.NotContains(t, p.text("#run-facts"), "Took")
	p.load("about:blank")
	p.load(s.url())
	p.waitText(`[data-run="later"] .now`, "begins in 59 m ")
	assert.NotContains(t, p.text(`[data-run="later"] .age`), "took")
}
