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
	"github.com/reprise-go/reprise/state"
)

// TestAnEffectIsTakenOverOnThePage retries an agent, which words its payment differently the second
// time. The page shows the effect that might be repeated, and the run takes over the existing
// receipt.
func TestAnEffectIsTakenOverOnThePage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var paid []string
	pay := decorators.Tool("pay", "", func(_ context.Context, to City) (string, error) {
		paid = append(paid, to.Name)
		return "receipt 1", nil
	}, actors.WithIrreversible())
	assistant := decorators.Agent("assistant", "", func(ctx context.Context, _ struct{}) (string, error) {
		if core.ScopeOf(ctx).Attempt() > 0 {
			return pay.Call(ctx, City{"please send 10 to Ada"})
		}
		if _, err := pay.Call(ctx, City{"send 10 to Ada"}); err != nil {
			return "", err
		}
		return "", core.Retryable(errors.New("no confirmation"))
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 2, InitialDelay: 1}))
	continueRun := func() (string, error) {
		st, err := state.Open(t.Context(), newStore(t, dir), "r")
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		return assistant.Call(st.Context(t.Context()), struct{}{})
	}
	_, err := continueRun()
	require.ErrorIs(t, err, core.ErrAwaiting)

	p := open(t, siteOf(t, dir).url())
	p.wait(`document.querySelector(".question .answer select")`)
	p.waitText(".question .doubt", "tool pay, might repeat assistant/pay")
	p.settle()
	p.choose(".question .answer select", "take the effect over")
	p.click(".question .send")
	p.waitText(".question .answer", "Answered. No program has continued the run yet")
	got, err := continueRun()
	require.NoError(t, err)
	assert.Equal(t, "receipt 1", got)
	assert.Equal(t, []string{"send 10 to Ada"}, paid)
}
