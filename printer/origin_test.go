package printer_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/printer"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

func TestOutputThatTheHandlerDidNotReturnSaysWhereItComesFrom(t *testing.T) {
	store := memstore.New()
	look := decorators.Tool("look", "", func(context.Context, struct{}) (string, error) { return "cold", nil })
	pay := decorators.Tool("pay", "", func(context.Context, struct{}) (string, error) {
		return "", core.InDoubt(errors.New("connection lost"))
	}, actors.WithIrreversible())
	trip := decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
		if _, err := look.Call(ctx, struct{}{}); err != nil {
			return "", err
		}
		return pay.Call(ctx, struct{}{})
	})
	run := func(id string) (string, error) {
		var out strings.Builder
		p := printer.New(&out, printer.WithPlain())
		st, err := state.Open(t.Context(), store, id, state.WithPublisher(p))
		require.NoError(t, err)
		_, err = trip.Call(st.Context(t.Context()), struct{}{})
		require.NoError(t, errors.Join(st.Close(), p.Close()))
		return out.String(), err
	}
	_, err := run("old")
	require.ErrorIs(t, err, core.ErrAwaiting)
	require.NoError(t, state.Answer(t.Context(), store, "old", "trip/pay?in-doubt1", "ann", state.InDoubtCompleted("receipt 7")))
	out, err := run("old")
	require.NoError(t, err)
	assert.Contains(t, out, "ANSWER to trip/pay?in-doubt1 by ann")
	assert.Regexp(t, `✔ pay \[COMPLETED\] \(\S+\) - as answered to trip/pay\?in-doubt1\n`, out)

	require.NoError(t, state.Fork(t.Context(), store, "old", testkit.Address(t, "trip/pay"), "new", state.ForkOptions{
		Effects: state.TakeOverEffects, Outputs: map[string]any{"trip/look": "warm"},
	}))
	out, err = run("new")
	require.NoError(t, err)
	assert.Regexp(t, `✔ pay \[COMPLETED\] \(\S+\) - took over the effect of trip/pay of run old\n`, out)
	assert.Regexp(t, `✔ look \[COMPLETED\] \(\S+\) - set when the run was forked\n`, printed(testkit.LoadRun(t, store, "new").Records))
	assert.Equal(t, "· ANSWER to q?1 - set when the run was forked\n", printed([]record.Record{{
		RunID: "new", Kind: record.KindAnswer, Status: record.StatusRecorded, Name: "q?1", Detail: &record.Detail{SetInFork: true},
	}}))
}
