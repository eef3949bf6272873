package browser

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/streamer"
)

// The agent of the run uses a second service after the first one has failed.
func TestTheErrorOfACompletedRunIsNotMarked(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	st := begin(t, s.dash, "trip-1")
	first := decorators.Tool("first", "fails", func(context.Context, City) (string, error) { return "", core.Permanent(errors.New("no map")) })
	second := decorators.Tool("second", "returns", func(context.Context, City) (string, error) { return "map", nil })
	agent := decorators.Agent("agent", "", func(ctx context.Context, in City) (string, error) {
		if out, err := first.Call(ctx, in); err == nil {
			return out, nil
		}
		return second.Call(ctx, in)
	})
	_, err := agent.Call(st.Context(t.Context()), City{"Oslo"})
	require.NoError(t, err)
	p := open(t, s.url())
	p.waitText(`[data-run="trip-1"] .error`, "no map")
	assert.Equal(t, "class permanent final", eval[string](p, `document.querySelector('[data-run="trip-1"] .error .class').className`))
	require.NoError(t, st.Close())
	p.waitText(`[data-run="trip-1"] .chip`, "completed")
	p.waitText(`[data-run="trip-1"] .error`, "earlier, first")
	assert.Equal(t, "class", eval[string](p, `document.querySelector('[data-run="trip-1"] .error .class').className`))
	p.keep("overcome.png")
}
