package state_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/internal/testkit"
	"github.com/reprise-go/reprise/record"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/state"
)

type orderBefore struct {
	Name  string `json:"name"`
	Price int    `json:"price"`
}

type orderNow struct {
	Name string `json:"name"`
	Cost int    `json:"cost"` // renamed from price
	Note string `json:"note"`
}

// reading returns an agent that writes a value, and then reads it with the given function. The
// first time, the agent is interrupted before it reads the value.
func reading(t *testing.T, stop *bool, price int, read func(context.Context) (any, error)) *testkit.Definition {
	return testkit.Agent(t, "agent", once, func(ctx context.Context, _ string) (string, error) {
		_, err := testkit.Call(ctx, testkit.Tool(t, "write", once, func(ctx context.Context, _ string) (string, error) {
			return "", state.Put(ctx, "order", orderBefore{"lamp", price})
		}))
		if *stop {
			*stop = false
			state.From(ctx).Interrupt(snapshot.Stop{By: "ops", Message: "deploy"})
			return "", ctx.Err()
		}
		if err == nil {
			_, _ = read(ctx) // the handler ignores the error
		}
		return "done", err
	})
}

func readAs[T any](ctx context.Context) (any, error) {
	v, _, err := state.Get[T](ctx, "order")
	return v, err
}

func TestValueWithFieldsThatItsTypeLostIsRefusedLiveAndRestored(t *testing.T) {
	for name, stop := range map[string]bool{"live": false, "restored": true} {
		t.Run(name, func(t *testing.T) {
			s := fileStore(t, t.TempDir())
			run := func(price int, read func(context.Context) (any, error), options ...state.Option) (any, error, *state.ExecutionState) { //nolint:staticcheck // what was read, and how it ended
				st, err := state.Open(t.Context(), s, "run-1", options...)
				require.NoError(t, err)
				var got any
				_, err = testkit.Call(st.Context(t.Context()), reading(t, &stop, price, func(ctx context.Context) (any, error) {
					got, err = read(ctx)
					return got, err
				}))
				require.NoError(t, st.Close())
				return got, err, st
			}
			if stop {
				_, err, _ := run(12, readAs[orderBefore])
				require.ErrorIs(t, err, core.ErrInterrupted)
			}
			_, err, st := run(12, readAs[orderNow])
			var d *core.DivergenceError
			require.ErrorAs(t, err, &d)
			assert.Equal(t, "value", d.How)
			assert.ErrorContains(t, err, `the value "order"`)
			assert.ErrorContains(t, err, "price: 12")
			assert.Equal(t, snapshot.StatusInterrupted, st.Status(), "the run has not failed, even if the handler ignores the error")

			got, err, st := run(12, readAs[orderNow], state.WithDivergence(state.DivergenceTrust))
			require.NoError(t, err)
			assert.Equal(t, orderNow{Name: "lamp"}, got)
			assert.Len(t, st.Report().Diverged, 1)
		})
	}
}

func TestValueIsReadInPartAsAMapAndWithNewFields(t *testing.T) {
	for name, read := range map[string]func(context.Context) (any, error){
		"a map": readAs[map[string]any],
		"new fields": readAs[struct {
			orderBefore
			Note string `json:"note"`
		}],
	} {
		t.Run(name, func(t *testing.T) {
			stop := false
			st, ctx := testkit.Run(t)
			_, err := testkit.Call(ctx, reading(t, &stop, 12, read))
			require.NoError(t, err)
			require.NoError(t, st.Close())
			assert.Equal(t, snapshot.StatusCompleted, st.Status())
		})
	}
	stop := false
	_, ctx := testkit.Run(t)
	_, err := testkit.Call(ctx, reading(t, &stop, 0, readAs[orderNow]))
	require.NoError(t, err, "nothing is lost")
}

func TestTrustedValueOfANewRunIsRead(t *testing.T) {
	st, err := state.Open(t.Context(), fileStore(t, t.TempDir()), "run-1", state.WithDivergence(state.DivergenceTrust))
	require.NoError(t, err)
	defer st.Close()
	ctx := st.Context(t.Context())
	require.NoError(t, state.Put(ctx, "order", orderBefore{"lamp", 12}))
	v, ok, err := state.Get[orderNow](ctx, "order")
	require.NoError(t, err)
	assert.True(t, ok)
	assert.Equal(t, "lamp", v.Name)
}

// curious is an input whose encoder calls a method of its run.
type curious struct {
	ask  func() state.Report
	name string
}

func (c curious) MarshalText() ([]byte, error) {
	_ = c.ask()
	return []byte(c.name), nil
}

func TestEncoderOfADivergingInputMayUseItsRun(t *testing.T) {
	s := fileStore(t, t.TempDir())
	run := func(name string) error {
		st, err := state.Open(t.Context(), s, "run-1")
		require.NoError(t, err)
		defer st.Close()
		d := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "tool"}, func(context.Context, curious) (string, error) { return "", nil })
		_, err = d.Event().Execute(st.Context(t.Context()), curious{st.Report, name})
		return err
	}
	require.NoError(t, run("a"))
	err := run("b")
	require.ErrorIs(t, err, core.ErrDivergence)
	assert.ErrorContains(t, err, `recorded "a", now "b"`)
}
