package browser

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

func TestAStopThatIsNotFinishedIsShown(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := newSite(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)}, nil)
	st, err := state.Open(t.Context(), store, "trip-1", state.WithPublisher(s.dash))
	require.NoError(t, err)
	begun, leave := make(chan struct{}), make(chan struct{})
	tool := decorators.Tool("book", "ignores its context", func(context.Context, City) (string, error) {
		close(begun)
		<-leave
		return "", nil
	})
	end := sync.OnceFunc(func() { close(leave) })
	background(t, func() {
		_, _ = tool.Call(st.Context(t.Context()), City{"Oslo"})
		assert.NoError(t, st.Close())
	})
	t.Cleanup(end)
	<-begun
	p := open(t, s.url()+"#run=trip-1")
	p.wait(`document.querySelector("[data-call]")`)
	p.click("#interrupt")
	p.click("#interrupt-yes")
	p.waitText("#run-banner", "Interrupt requested by dashboard")
	assert.True(t, eval[bool](p, `document.querySelector("#interrupt").disabled && !document.querySelector("#cancel").disabled`))
	p.keys("x")
	p.click("#cancel")
	p.wait(`document.querySelector("#interrupt-dialog").open`)
	p.keys("wrong city\r")
	p.waitText("#run-banner", "Cancel requested by dashboard: wrong city. The run stops when its calls return.")
	assert.True(t, eval[bool](p, `document.querySelector("#interrupt").disabled && document.querySelector("#cancel").disabled`))
	p.keep("stopping-run.png")
	p.load(s.url())
	p.waitText(`[data-run="trip-1"] .now`, "Cancel requested by dashboard: wrong city")
	p.keep("stopping-list.png")
	p.load(s.url() + "#run=trip-1")
	p.waitText("#run-banner", "Cancel requested by dashboard")
	end()
	p.waitText("#run-banner", "Cancelled for good by dashboard: wrong city")
}

// TestAStopThatWasRequestedElsewhereIsShown has pages that are open when another process asks a run
// to stop.
func TestAStopThatWasRequestedElsewhereIsShown(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := newSite(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)}, nil)
	watched(t, s, store)
	st, err := state.Open(t.Context(), store, "trip-1", state.WithPublisher(s.dash))
	require.NoError(t, err)
	p := open(t, s.url()+"#run=trip-1")
	list := p.another(s.url())
	p.waitLive()
	list.waitLive()
	list.waitText(`[data-run="trip-1"]`, "running")
	require.NoError(t, state.Interrupt(t.Context(), store, "trip-1", snapshot.Stop{By: "ann", Message: "enough"}))
	p.waitText("#run-banner", "Interrupt requested by ann: enough. The run stops when its calls return.")
	list.waitText(`[data-run="trip-1"] .now`, "Interrupt requested by ann: enough")
	require.NoError(t, state.Cancel(t.Context(), store, "trip-1", snapshot.Stop{By: "bob"}))
	p.waitText("#run-banner", "Cancel requested by bob")
	assert.True(t, eval[bool](p, `document.querySelector("#interrupt").disabled && document.querySelector("#cancel").disabled`))
	require.NoError(t, st.Close())
	p.waitText("#run-banner", "Cancelled for good by bob")
}
