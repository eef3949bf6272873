package actors_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/state"
)

// A loop over MapSeq sees a failed branch and then one that succeeds. The loop is then left, so the
// group completes. A later call makes the run fail. When the run is retried, the loop sees the same
// branches.
func TestMapSeqThatWasLeftAfterAFailureInARetriedRun(t *testing.T) {
	for name, repaired := range map[string]bool{"the branch still fails": false, "the branch was repaired": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, firstFails, endFails := memstore.New(), true, true
				item := decorators.Tool("item", "", func(ctx context.Context, in number) (string, error) {
					select {
					case <-time.After(time.Duration(in.N) * time.Second):
					case <-ctx.Done():
						return "", ctx.Err()
					}
					if in.N == 1 && firstFails {
						return "", core.Permanent(errors.New("oh"))
					}
					return fmt.Sprint("item ", in.N), nil
				})
				end := decorators.Tool("end", "", func(context.Context, number) (string, error) {
					if endFails {
						return "", core.Permanent(errors.New("no"))
					}
					return "ok", nil
				})
				run := func() (seen []string, err error) {
					agent := decorators.Agent("a", "", func(ctx context.Context, _ number) (string, error) {
						for out, err := range actors.MapSeq(ctx, actors.Group{Name: "g", CollectAll: true}, item, []number{{1}, {2}, {100}}) {
							if err != nil && core.IsSuspension(err) {
								return "", err
							}
							seen = append(seen, fmt.Sprint(out.Branch, " ", out.Output, " ", err))
							if err == nil {
								break
							}
						}
						return end.Call(ctx, number{})
					})
					st, err := state.Open(t.Context(), store, "r")
					require.NoError(t, err)
					_, err = agent.Call(st.Context(t.Context()), number{})
					require.NoError(t, st.Close())
					return seen, err
				}
				first, err := run()
				require.ErrorContains(t, err, "no")
				require.Len(t, first, 2)
				_, err = state.Retry(t.Context(), store, "r")
				require.NoError(t, err)
				endFails, firstFails = false, !repaired
				again, err := run()
				require.NoError(t, err)
				assert.Equal(t, first, again)
			})
		})
	}
}
