package browser

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestParkedRunsNeedNoAnswer checks runs that are parked while the page is open, and then the same
// runs on the page of another server, which has not read their records.
func TestParkedRunsNeedNoAnswer(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	s := newSite(t, stored.New(store), streamer.Options{Control: new(control)}, nil)
	p := open(t, s.url())
	park := func(id string, call func(ctx context.Context) error, options ...actors.Option) {
		st, err := state.Open(t.Context(), store, id, state.WithPublisher(s.dash), state.WithParking(time.Millisecond))
		require.NoError(t, err)
		_, err = decorators.Agent("agent", "", func(ctx context.Context, _ City) (string, error) { return "", call(ctx) }, options...).Call(st.Context(t.Context()), City{"Oslo"})
		require.ErrorContains(t, err, "interrupted (awaiting")
		require.NoError(t, st.Close())
	}
	park("ask", func(ctx context.Context) error { _, err := core.Await[bool](ctx, "Send it?"); return err })
	park("nap", func(ctx context.Context) error { return core.Sleep(ctx, time.Hour) })
	park("back", func(context.Context) error { return core.Retryable(errors.New("busy")) },
		actors.WithRetry(core.RetryConfig{MaxAttempts: 5, InitialDelay: 20 * time.Minute, MaxDelay: time.Hour, Jitter: core.NoJitter}))
	park("mail", func(ctx context.Context) error { _, err := core.Receive[string](ctx, "called"); return err })

	looks := func(s *site) {
		p.waitText(`[data-status="paused"].tile b`, "1")
		p.waitText(`[data-status="waiting"].tile b`, "3")
		p.waitText(`[data-run="ask"] .chip`, "needs answer")
		p.waitText(`[data-run="nap"] .now`, "waits until ")
		p.waitText(`[data-run="back"] .now`, "waits until ")
		p.wait(`document.querySelector('[data-run="mail"] .now').textContent.startsWith("waits")`)
		for _, id := range []string{"nap", "back", "mail"} {
			p.waitText(`[data-run="`+id+`"] .chip`, "waiting")
		}
		p.waitText("#waiting-total", "2")
		assert.Equal(t, []string{"back", "nap"}, eval[[]string](p, `[...document.querySelectorAll("#waiting-rows .of")].map((cell) => cell.textContent)`))
		p.keep("parked.png")
		p.click(`[data-status="waiting"].tile`)
		p.wait(`document.querySelectorAll("#run-rows [data-run]").length === 3`)
		p.load(s.url() + "#run=nap")
		p.waitText("#run-status", "waiting")
		p.waitText("#run-facts", "Continues")
		p.waitText("[data-call] .lane-state", "waits")
		p.keep("parked-run.png")
	}
	looks(s)
	s = newSite(t, stored.New(store), streamer.Options{Control: new(control)}, nil)
	p = open(t, s.url())
	looks(s)
}
