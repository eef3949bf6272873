package browser

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// watched notifies the site of runs that are deleted or asked to stop, until the test ends.
func watched(t *testing.T, s *site, store *memstore.Store) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	background(t, func() { _ = stored.New(store).FollowChanges(ctx, s.dash.PublishDeletion, s.dash.PublishStopping) })
	t.Cleanup(cancel)
}

// recorded makes a run that calls the named tools and then ends.
func recorded(t *testing.T, s *site, store *memstore.Store, id string, names []string) {
	t.Helper()
	st, err := state.Open(t.Context(), store, id, state.WithPublisher(s.dash))
	require.NoError(t, err)
	for _, name := range names {
		tool := decorators.Tool(name, "returns", func(_ context.Context, in City) (string, error) { return in.Name, nil })
		_, err := tool.Call(st.Context(t.Context()), City{"Oslo"})
		require.NoError(t, err)
	}
	require.NoError(t, st.Close())
}

// TestRecreatedRunIsShownAsAnother deletes a run and makes another one with the same ID. The run's
// page and the list show the new run immediately.
func TestRecreatedRunIsShownAsAnother(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := newSite(t, stored.New(store), streamer.Options{}, nil)
	watched(t, s, store)
	long, short := []string{"get_map", "get_weather", "get_hotel"}, []string{"book"}
	record := func(names []string) { recorded(t, s, store, "trip-1", names) }
	record(long)
	p := open(t, s.url()+"#run=trip-1")
	list := p.another(s.url())
	list.waitText(`[data-run="trip-1"] .calls`, "3")
	p.wait(`document.querySelectorAll("[data-call]").length === 3`)
	require.NoError(t, store.Delete(t.Context(), "trip-1"))
	p.waitText("#run-banner", "This run was deleted")
	list.wait(`!document.querySelector('[data-run="trip-1"]')`)
	assert.Equal(t, "0", list.text("#runs-total"))
	record(short)
	p.waitText("#run-banner", "This is another run with the same ID")
	p.wait(`document.querySelectorAll("[data-call]").length === 1`)
	list.waitText(`[data-run="trip-1"] .calls`, "1")
	assert.Equal(t, "1", list.text("#runs-total"))
	list.wait(`(location.hash = "#q=trip", true)`)
	list.waitText("#runs-total", "1")
	recorded(t, s, store, "trip-2", short)
	list.waitText("#runs-total", "2") // also without a search
	list.wait(`(location.hash = "", true)`)

	// This also works if the page was not notified of the deletion.
	p.expectOutages()
	p.offline(true)
	p.wait(`document.querySelector("#connection").dataset.state !== "live"`)
	require.NoError(t, store.Delete(t.Context(), "trip-1"))
	record(long)
	p.offline(false)
	p.wait(`document.querySelectorAll("[data-call]").length === 3`)
	p.waitText("#run-banner", "This is another run with the same ID")
	list.waitText(`[data-run="trip-1"] .calls`, "3")
}
