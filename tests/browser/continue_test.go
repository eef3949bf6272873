package browser

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// failedTrip returns a store with a run that made a payment and then failed.
func failedTrip(t *testing.T) *memstore.Store {
	t.Helper()
	store := memstore.New()
	st, err := state.Open(t.Context(), store, "trip-1", state.WithPayloads())
	require.NoError(t, err)
	pay := decorators.Tool("pay", "pays", func(context.Context, City) (string, error) { return "receipt", nil }, actors.WithIrreversible())
	fail := decorators.Tool("fail", "fails", func(context.Context, City) (string, error) { return "", core.Permanent(errors.New("no room")) })
	trip := decorators.Agent("trip", "goes", func(ctx context.Context, in City) (string, error) {
		if _, err := pay.Call(ctx, in); err != nil {
			return "", err
		}
		return fail.Call(ctx, in)
	})
	_, err = trip.Call(st.Context(t.Context()), City{"Oslo"})
	require.Error(t, err)
	require.NoError(t, st.Close())
	_, err = store.Update(t.Context(), "trip-1", func(i *snapshot.Info) error { i.Program = "trip"; return nil })
	require.NoError(t, err)
	return store
}

// TestAFailedRunContinuesFromThePage retries a failed run and forks it. Before the fork, the page
// lists the calls that have had effects.
func TestAFailedRunContinuesFromThePage(t *testing.T) {
	t.Parallel()
	store := failedTrip(t)
	control := stored.NewControl(store)
	s := newSite(t, stored.New(store), streamer.Options{Control: control, Continuer: control, Forker: control}, nil)
	p := open(t, s.url()+"#run=trip-1&call=trip%2Fpay")
	p.waitText("#run-status", "failed")
	p.wait(`document.querySelector("#detail [data-fork]")`)
	p.wait(`(document.querySelector("#detail [data-fork]").click(), true)`)
	p.waitText("#fork-explain", "before trip/pay")
	for _, scheme := range []string{"dark", "light"} {
		p.colours(scheme)
		p.settle()
		assert.Empty(t, p.violations(), scheme)
	}
	p.expectOutages()
	p.wait(`(document.querySelector("#fork-yes").click(), true)`)
	p.waitText("#fork-error", "trip/pay (irreversible)")
	p.wait(`(document.querySelector("#fork-effects").value = "take_over", document.querySelector("#fork-yes").click(), true)`)
	p.waitText("#fork-done", "trip-1-again")
	info, err := store.Info(t.Context(), "trip-1-again")
	require.NoError(t, err)
	assert.Equal(t, "trip-1", info.ParentID)

	p.wait(`(document.querySelector("#fork-no").click(), document.querySelector("#continue").click(), true)`)
	p.waitText("#run-continue", "It is queued")
	p.waitText("#run-status", "queued")
	p.waitText("#run-facts", "when a runner has room for it")
	assert.Contains(t, p.text("#run-continue"), "It is queued")
	info, err = store.Info(t.Context(), "trip-1")
	require.NoError(t, err)
	assert.Equal(t, snapshot.StatusQueued, info.Status)
	p.load(s.url() + "#run=trip-1-again")
	p.waitText("#run-banner", "Interrupted: this run was forked from run trip-1 at trip/pay")
}

// TestAFailedRunThatNoRunnerStartedIsLeftToItsProgram checks that the page retries such a run and
// then offers no button, because only its program can continue it.
func TestAFailedRunThatNoRunnerStartedIsLeftToItsProgram(t *testing.T) {
	t.Parallel()
	store := failedTrip(t)
	_, err := store.Update(t.Context(), "trip-1", func(i *snapshot.Info) error { i.Program = ""; return nil })
	require.NoError(t, err)
	control := stored.NewControl(store)
	s := newSite(t, stored.New(store), streamer.Options{Control: control, Continuer: control}, nil)
	p := open(t, s.url()+"#run=trip-1")
	p.waitText("#run-status", "failed")
	p.wait(`(document.querySelector("#continue").click(), true)`)
	p.waitText("#run-status", "interrupted")
	p.wait(`document.body.innerText.includes("its program tries the failed calls again when it opens the run") && !document.querySelector("#continue")`)
	assert.Empty(t, p.violations())
}

// TestThePageShowsTheCommandForWhatItMayNotDo checks that a page without permission shows the
// commands, quoted for a shell.
func TestThePageShowsTheCommandForWhatItMayNotDo(t *testing.T) {
	t.Parallel()
	s := newSite(t, stored.New(failedTrip(t)), streamer.Options{}, nil)
	p := open(t, s.url()+"#run=trip-1&call=trip%2Ffail")
	p.waitText("#run-continue", "reprise retry trip-1")
	assert.Empty(t, p.violations())
	p.wait(`document.querySelector("#detail [data-fork]")`)
	p.wait(`(document.querySelector("#detail [data-fork]").click(), true)`)
	p.waitText("#fork-command code", "reprise fork trip-1 trip/fail trip-1-again")
	assert.True(t, eval[bool](p, `document.querySelector("#fork-yes").hidden`))
}

// TestThePageSaysHowToStopWhatItMayNotStop checks that a page without permission shows the commands
// for stopping a run and for answering, each with a button that copies it.
func TestThePageSaysHowToStopWhatItMayNotStop(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	busy(t, begin(t, s.dash, "trip-1"), "get_map")
	asking(t, begin(t, s.dash, "ask-1"), "Really?")
	p := newTab(t)
	p.before(`globalThis.copied = []; Object.defineProperty(navigator, "clipboard", { value: { writeText: async (text) => void copied.push(text) } });`)
	p.load(s.url() + "#run=trip-1")
	p.waitText("#run-continue", "reprise interrupt trip-1")
	p.waitText("#run-continue", "reprise cancel trip-1")
	p.keys("i")
	p.wait(`document.activeElement.matches("#run-continue .command:first-child button")`)
	p.click("#run-continue .command:nth-child(2) button")
	p.waitText("#run-continue", "Copied")
	p.inspect("stop-by-command")
	p.load(s.url() + "#")
	p.waitText(".question .byhand code", "reprise answer ask-1 'clerk?1' true")
	p.click(".question .byhand button")
	p.wait(`copied.length === 2`)
	assert.Equal(t, []string{"reprise cancel trip-1", "reprise answer ask-1 'clerk?1' true"}, eval[[]string](p, `copied`))
}
