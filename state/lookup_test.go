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
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// TestACallInDoubtIsLookedUpBeforeItFailsOrAsks checks that a call in doubt completes with its
// outcome if LookUp finds one: the call does not fail, no one is asked, and the handler does not
// run again.
func TestACallInDoubtIsLookedUpBeforeItFailsOrAsks(t *testing.T) {
	for name, inDoubt := range map[string]core.InDoubtPolicy{"fail": core.InDoubtFail, "ask": core.InDoubtAsk} {
		for _, isLeft := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				left, began := map[string]string{}, make(chan struct{}, 2)
				pay := testkit.Define(t, core.Spec{Kind: record.KindTool, Name: "pay", InDoubt: inDoubt}, func(ctx context.Context, in string) (string, error) {
					key, err := core.IdempotencyKey(ctx)
					if err != nil {
						return "", err
					}
					if isLeft {
						left[key] = "paid " + in
					}
					began <- struct{}{}
					<-ctx.Done()
					return "", ctx.Err()
				}).LookUp(func(ctx context.Context, _ string) (string, bool, error) {
					key, err := core.IdempotencyKey(ctx)
					return left[key], left[key] != "", err
				})
				store := memstore.New()
				st, err := state.Open(t.Context(), store, "run")
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				go func() {
					<-began
					st.Interrupt(snapshot.Stop{})
				}()
				_, err = pay.Event().Execute(st.Context(ctx), "Ada")
				require.Error(t, err)
				cancel()
				_ = st.Close()

				st, err = state.Open(t.Context(), store, "run")
				require.NoError(t, err)
				out, err := pay.Event().Execute(st.Context(t.Context()), "Ada")
				if isLeft {
					require.NoError(t, err)
					assert.Equal(t, "paid Ada", out)
				} else {
					require.Error(t, err)
				}
				assert.Empty(t, began, "the handler does not run again")
				_ = st.Close()
			})
		}
	}
}
