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
	"github.com/reprise-go/reprise/streamer"
)

func TestOnlyCallsThatAreRetriedAreExhausted(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, streamer.Options{}, nil)
	for run, retry := range map[string]core.RetryConfig{"once": {MaxAttempts: 1}, "twice": {MaxAttempts: 2, InitialDelay: core.NoDelay}} {
		st := begin(t, s.dash, run)
		tool := decorators.Tool("fetch", "fails", func(context.Context, City) (string, error) {
			return "", core.Retryable(errors.New("no map"))
		}, actors.WithRetry(retry))
		_, err := tool.Call(st.Context(t.Context()), City{"Oslo"})
		require.ErrorIs(t, err, core.ErrExhausted)
		require.NoError(t, st.Close())
	}
	p := open(t, s.url()+"#run=once&call=fetch")
	p.waitText("#run-banner", "Failed (unknown): fetch: no map")
	p.waitText("#detail", "Attempts1 of 1")
	p.waitText("#record-rows", "no map · failed after")
	assert.NotContains(t, p.text("#run"), "exhausted")
	p.load(s.url() + "#run=twice&call=fetch")
	p.waitText("#run-banner", "Failed (unknown): fetch: exhausted after 2 attempts: no map")
	p.waitText("#detail", "Endedexhausted")
}
