package actors_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
)

// An OnFailure that ends its goroutine, for example by calling t.FailNow, does not make branches
// that did not run look as if they had succeeded.
func TestOnFailureThatEndsItsGoroutineLosesNoBranch(t *testing.T) {
	for _, yields := range []bool{false, true} {
		tool := decorators.Agent("echo", "", func(_ context.Context, n int) (int, error) {
			if n == 1 {
				return 0, core.Permanent(errors.New("no"))
			}
			return n, nil
		})
		calls := 0
		g := actors.Group{Name: "g", Workers: 1, CollectAll: true, YieldWaits: yields, OnFailure: func(int, error) {
			calls++
			runtime.Goexit()
		}}
		out, err := actors.Map(t.Context(), g, tool, []int{1, 2, 3})
		var failed *actors.GroupError
		require.ErrorAs(t, err, &failed)
		assert.Len(t, failed.Failed, 1)
		assert.Equal(t, []int{0, 2, 3}, out)
		assert.Equal(t, 1, calls)
	}
}
