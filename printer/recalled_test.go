package printer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

type page struct{ N int }

func TestResumeWritesOneLineForRecalledCalls(t *testing.T) {
	for name, options := range map[string][]printer.Option{"plain": {printer.WithPlain()}, "compact": {printer.WithCompact()}} {
		t.Run(name, func(t *testing.T) {
			store, stop := memstore.New(), true
			fetch := decorators.Tool("fetch", "", func(_ context.Context, p page) (int, error) {
				if p.N == 7 {
					return 0, core.Permanent(fmt.Errorf("no page %d", p.N))
				}
				return p.N, nil
			})
			last := decorators.Tool("last", "", func(context.Context, struct{}) (string, error) { return "", nil })
			agent := decorators.Agent("agent", "", func(ctx context.Context, _ struct{}) (string, error) {
				for n := range 100 {
					_, _ = fetch.Call(ctx, page{n})
				}
				if _, err := actors.Map(ctx, actors.Group{Name: "all"}, fetch, []page{{1}, {2}, {3}}); err != nil {
					return "", err
				}
				if stop {
					stop = false
					state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
					return "", ctx.Err()
				}
				return last.Call(ctx, struct{}{})
			})
			var out strings.Builder
			run := func() error {
				out.Reset()
				p := printer.New(&out, options...)
				st, err := state.Open(t.Context(), store, "r1", state.WithPublisher(p))
				require.NoError(t, err)
				_, err = agent.Call(st.Context(t.Context()), struct{}{})
				require.NoError(t, st.Close())
				require.NoError(t, p.Close())
				return err
			}
			require.ErrorIs(t, run(), core.ErrInterrupted)
			require.NoError(t, run())
			assert.Equal(t, 1, strings.Count(out.String(), "RECOVERED"), "%s", &out)
			assert.Contains(t, out.String(), "calls [RECOVERED from history] (1 failure)\n")
			require.NoError(t, run(), "the whole agent counts as one call")
			assert.Equal(t, 1, strings.Count(out.String(), "agent [RECOVERED from history]"), "%s", &out)
		})
	}
}

func TestRecalledFailureOfARootCallSaysHowToTryItAgain(t *testing.T) {
	store := memstore.New()
	ask := decorators.Tool("ask", "", func(context.Context, page) (string, error) { return "", core.Permanent(fmt.Errorf("no API key")) })
	agent := decorators.Agent("agent", "", func(ctx context.Context, _ page) (string, error) { return ask.Call(ctx, page{}) })
	run := func(options ...printer.Option) string {
		var out strings.Builder
		p := printer.New(&out, options...)
		st, err := state.Open(t.Context(), store, "k1", state.WithPublisher(p))
		require.NoError(t, err)
		for n := range 2 {
			_, err := agent.Call(st.Context(t.Context()), page{n})
			require.ErrorContains(t, err, "agent"+map[int]string{1: "#2"}[n]+"/ask: permanent: no API key")
		}
		require.NoError(t, st.Close())
		require.NoError(t, p.Close())
		return out.String()
	}
	const hint = "  · this is the recorded failure: nothing ran again; to make the failed calls again: reprise retry k1\n"
	assert.NotContains(t, run(), "recorded failure", "it is new")
	for name, options := range map[string][]printer.Option{"plain": {printer.WithPlain()}, "compact": {printer.WithCompact()}} {
		out := run(options...)
		assert.Contains(t, out, "↻ agent [RECOVERED from history] - agent/ask: permanent: no API key\n"+hint, name)
		assert.Equal(t, 1, strings.Count(out, hint), "%s: %s", name, out)
	}
	assert.Contains(t, run(printer.WithCommand("")), "nothing ran again\n")

	_, err := state.Retry(t.Context(), store, "k1")
	require.NoError(t, err)
	assert.NotContains(t, run(), "recorded failure", "it was tried again")
}

func TestFailureSaysHowToRetry(t *testing.T) {
	var out strings.Builder
	st := state.New(state.WithPublisher(printer.New(&out)))
	defer st.Close()
	tool := decorators.Tool("tool", "", func(context.Context, struct{}) (string, error) { return "", fmt.Errorf("no luck") },
		actors.WithRetry(core.RetryConfig{MaxAttempts: 3}))
	_, err := tool.Call(st.Context(t.Context()), struct{}{})
	require.ErrorIs(t, err, core.ErrPermanent)
	assert.Contains(t, out.String(), "[FAILED: permanent]")
	assert.Contains(t, out.String(), "  · not retried, since its class is unknown: mark the error with core.Retryable")
}
