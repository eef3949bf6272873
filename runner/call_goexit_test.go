package runner_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/runner"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
)

// The calling run must not wait forever for a result.
func TestCallReturnsIfTheCalledRunEndsItsGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunner(t, memstore.New(), runner.Options{})
		runner.Register(r, agent("child", func(context.Context, word) (string, error) {
			runtime.Goexit()
			return "", nil
		}))
		program := runner.Register(r, calling)
		defer serve(t, r)()
		_, err := program.Start(t.Context(), "a", word{"x"}, runner.StartOptions{})
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		info, err := r.Wait(ctx, "a")
		require.NoError(t, err)
		require.Equal(t, snapshot.StatusFailed, info.Status)
		_, err = program.Result(t.Context(), "a")
		assert.ErrorContains(t, err, "has ended as failed")
	})
}
