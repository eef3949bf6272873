package stored_test

import (
	"context"
	"encoding/json"
	"testing"

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

// TestForkOverHTTP forks a run before a payment. The payment is not repeated, because both
// decisions to keep it arrive over HTTP.
func TestForkOverHTTP(t *testing.T) {
	store := memstore.New()
	type order struct {
		Amount int `json:"amount"`
	}
	var paid []int
	pay := decorators.Tool("pay", "", func(_ context.Context, o order) (string, error) {
		paid = append(paid, o.Amount)
		return "receipt", nil
	}, actors.WithIrreversible())
	open := func(id string, amount int) (string, error) {
		st, err := state.Open(t.Context(), store, id)
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		return decorators.Agent("trip", "", func(ctx context.Context, _ struct{}) (string, error) {
			return pay.Call(ctx, order{amount})
		}).Call(st.Context(t.Context()), struct{}{})
	}
	_, err := open("old", 10)
	require.NoError(t, err)
	control := stored.NewControl(store)
	_, url := serveWith(t, stored.New(store), streamer.Options{Control: control, Forker: control})
	client := &streamer.Client{URL: url}
	fork := func(f streamer.Fork) error { return client.Fork(t.Context(), "old", f) }

	err = fork(streamer.Fork{RunID: "new", Address: "trip/pay"})
	require.ErrorIs(t, err, streamer.ErrConflict)
	require.ErrorContains(t, err, `trip/pay (irreversible); decide with effects: "take_over", so that`)
	require.NoError(t, fork(streamer.Fork{RunID: "new", Address: "trip/pay", Effects: "take_over"}))
	_, err = open("new", 12)
	require.ErrorIs(t, err, core.ErrAwaiting)
	open1, err := state.Questions(t.Context(), store, "new")
	require.NoError(t, err)
	require.NoError(t, client.Answer(t.Context(), "new", open1[0].ID, "ops", map[string]any{"decision": "take_over"}))
	out, err := open("new", 12)
	require.NoError(t, err)
	assert.Equal(t, "receipt", out)

	require.NoError(t, fork(streamer.Fork{RunID: "set", Address: "trip/pay", Outputs: map[string]json.RawMessage{"trip/pay": json.RawMessage(`"another"`)}}))
	out, err = open("set", 10)
	require.NoError(t, err)
	assert.Equal(t, "another", out)
	assert.Equal(t, []int{10}, paid)

	for want, f := range map[error]streamer.Fork{
		streamer.ErrConflict: {RunID: "new", Address: "trip/pay", Effects: "repeat"}, // a run with this ID exists
		streamer.ErrInvalid:  {RunID: "x", Address: "trip/pay", Effects: "perhaps"},
	} {
		require.ErrorIs(t, fork(f), want)
	}
	require.ErrorIs(t, fork(streamer.Fork{RunID: "x", Address: "trip//pay"}), streamer.ErrInvalid)
	require.ErrorIs(t, fork(streamer.Fork{RunID: "../x", Address: "trip/pay"}), streamer.ErrInvalid)
	require.ErrorIs(t, fork(streamer.Fork{RunID: "x", Address: "trip/nobody"}), streamer.ErrInvalid)
	require.ErrorIs(t, fork(streamer.Fork{RunID: "x", Address: "trip/pay", Outputs: map[string]json.RawMessage{"trip/pay": json.RawMessage(`7`)}}), streamer.ErrInvalid)
	require.ErrorIs(t, client.Fork(t.Context(), "none", streamer.Fork{RunID: "x", Address: "trip/pay"}), streamer.ErrNotFound)
	require.Error(t, fork(streamer.Fork{RunID: "x"}))
	_, forbidden := serveWith(t, stored.New(store), streamer.Options{Control: control})
	require.ErrorContains(t, (&streamer.Client{URL: forbidden}).Fork(t.Context(), "old", streamer.Fork{RunID: "x", Address: "trip/pay"}), "runs cannot be forked here")
}
