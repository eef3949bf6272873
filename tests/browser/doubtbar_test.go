package browser

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
	"github.com/reprise-go/reprise/streamer"
	"github.com/reprise-go/reprise/streamer/stored"
)

// TestACallInDoubtIsDrawnFromTheBeginningOfItsAttempt checks the bars of a payment while somebody
// is asked whether it took effect. The process of the payment was killed 24 s after the run began.
func TestACallInDoubtIsDrawnFromTheBeginningOfItsAttempt(t *testing.T) {
	t.Parallel()
	before, after := memstore.New(), memstore.New()
	var killed func(context.Context)
	pay := func(s snapshot.Store, options ...state.Option) error {
		st, err := state.Open(t.Context(), s, "trip", options...)
		require.NoError(t, err)
		defer func() { require.NoError(t, st.Close()) }()
		_, err = core.Step(st.Context(t.Context()), "pay", func(ctx context.Context) (string, error) {
			killed(ctx)
			return "paid", nil
		}, core.StepInDoubt(core.InDoubtAsk))
		return err
	}
	killed = func(ctx context.Context) { // copies the store as it would be if the process ended here
		left := testkit.LoadRun(t, before, "trip")
		for i := range left.Records {
			ago := 40 * time.Second
			if left.Records[i].Kind == record.KindRun {
				ago = 64 * time.Second
			}
			left.Records[i].Time = left.Records[i].Time.Add(-ago)
		}
		left.Status = snapshot.StatusInterrupted
		found, err := left.Run()
		require.NoError(t, err)
		_, err = after.Create(ctx, found)
		require.NoError(t, err)
	}
	require.NoError(t, pay(before))
	s := newSite(t, stored.New(after), streamer.Options{Control: stored.NewControl(after)}, nil)
	p := open(t, s.url()+"#run=trip")
	p.wait(`document.querySelector('[data-call="step:pay"] .b-lost')`)
	assert.Equal(t, "stopped", p.text(`[data-call="step:pay"] .lane-state`), "no process has the run open")
	p.waitText("#run-facts", "0 ok, 1 stopped")
	require.ErrorIs(t, pay(after, state.WithPublisher(s.dash)), core.ErrAwaiting)
	for _, view := range []string{"live", "stored"} {
		p.waitText("#run-status", "needs answer")
		p.wait(`document.querySelector('[data-call="step:pay"] .b-awaiting')`)
		left := func(bar string) float64 {
			return eval[float64](p, `parseFloat(document.querySelector('[data-call="step:pay"] `+bar+`').style.left)`)
		}
		assert.Greater(t, left(".b-awaiting"), 90.0, view)
		assert.InDelta(t, left(".b-lost"), left(".b-awaiting"), 0.01, view)
		p.load("about:blank")
		p.load(s.url() + "#run=trip")
	}
	assert.True(t, eval[bool](p, `(async () => {
		const { CallTree } = await import(new URL("calls.js", document.baseURI));
		const { run, records } = await (await fetch("api/runs/trip?limit=100")).json();
		const tree = new CallTree(Date.parse(run.created_at));
		for (const record of records.slice(2)) tree.take(record); // the records of the second opening
		return tree.calls.get("step:pay").attempts[0].start === Date.parse(records[4].time);
	})()`), "if its beginning is not loaded, it is drawn from the record that asks")
}
