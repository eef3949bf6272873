package browser

import (
	"context"
	"sync"
	"testing"

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

// TestAStopThatWasRequestedElsewhereIsShown opens pages before another process asks a run to stop.
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

// TestTheCancelOfAPausedRunIsShownUntilItEnds cancels a run that waits for an answer. The
// compensation of one of its calls asks a question, too.
func TestTheCancelOfAPausedRunIsShownUntilItEnds(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := newSite(t, stored.New(store), streamer.Options{Control: stored.NewControl(store)}, nil)
	book := decorators.Tool("book", "books", func(_ context.Context, in City) (string, error) { return in.Name, nil }).
		Compensate(func(ctx context.Context, _ City, _ string) error {
			_, err := core.Await[bool](ctx, "Is it undone?")
			return err
		})
	trip := decorators.Agent("trip", "books and asks", func(ctx context.Context, in City) (string, error) {
		if _, err := book.Call(ctx, in); err != nil {
			return "", err
		}
		return core.Await[string](ctx, "Go on?")
	})
	options := []state.Option{state.WithPublisher(s.dash), state.WithCompensations(book)}
	st, err := state.Open(t.Context(), store, "trip-1", options...)
	require.NoError(t, err)
	_, err = trip.Call(st.Context(t.Context()), City{"Oslo"})
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, st.Close())

	p := open(t, s.url()+"#run=trip-1")
	p.waitText(".question", "Go on?")
	p.click("#cancel")
	p.wait(`document.querySelector("#interrupt-dialog").open`)
	p.keys("wrong city\r")
	const requested = "Cancel requested by dashboard: wrong city. It ends when its calls are compensated."
	p.waitText("#run-banner", requested)
	_, err = state.Open(t.Context(), store, "trip-1", options...)
	require.ErrorIs(t, err, state.ErrCancelled)
	p.waitText(".question:not(.answered)", "Is it undone?")
	assert.Equal(t, requested, p.text("#run-banner"))
	p.load("about:blank")
	p.load(s.url() + "#run=trip-1")
	p.waitText("#run-banner", requested)
	questions, err := state.Questions(t.Context(), store, "trip-1")
	require.NoError(t, err)
	require.Len(t, questions, 1)
	require.NoError(t, state.Answer(t.Context(), store, "trip-1", questions[0].ID, "ann", true))
	_, err = state.Open(t.Context(), store, "trip-1", options...)
	require.ErrorIs(t, err, state.ErrCancelled)
	p.waitText("#run-banner", "Cancelled for good by dashboard: wrong city")
}
