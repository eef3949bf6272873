package browser

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestLostAttemptIsShown checks that the page shows that the process ended during an attempt, and
// shows the attempt that replaced it.
func TestLostAttemptIsShown(t *testing.T) {
	t.Parallel()
	before, after := memstore.New(), memstore.New()
	var killed func(context.Context)
	tool := decorators.Tool("book", "books a trip", func(ctx context.Context, in City) (string, error) {
		if killed != nil {
			killed(ctx)
		}
		return in.Name, nil
	})
	book := func(s snapshot.Store) {
		st, err := state.Open(t.Context(), s, "trip")
		require.NoError(t, err)
		_, err = tool.Call(st.Context(t.Context()), City{"Oslo"})
		require.NoError(t, err)
		require.NoError(t, st.Close())
	}
	killed = func(ctx context.Context) { // copies the store as it would be if the process ended here
		found, err := before.Load(ctx, "trip")
		require.NoError(t, err)
		found.Status = snapshot.StatusInterrupted
		_, err = after.Create(ctx, found)
		require.NoError(t, err)
	}
	book(before)
	killed = nil
	book(after)

	s := newSite(t, stored.New(after), streamer.Options{}, nil)
	p := open(t, s.url()+"#run=trip")
	p.wait(`document.querySelector('[data-call="book"]')`)
	p.click(`[data-call="book"]`)
	p.waitText(".attempts li:nth-child(1)", "the process ended during it")
	p.waitText(".attempts li:nth-child(2)", "1 of 3, again")
}
