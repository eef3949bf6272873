package runner

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/snapshot/memstore"
)

// A jump of the clock by more than a minute is reported once. A jump of a minute, a slow
// clock, and the passing of time are not reported.
func TestJumpOfTheClockIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var set atomic.Int64 // how far the clock is off
		var mu sync.Mutex
		var troubles []error
		r, err := New(memstore.New(), Options{Observe: func(e Notice) {
			mu.Lock()
			defer mu.Unlock()
			assert.Equal(t, NoticeTrouble, e.Type)
			troubles = append(troubles, e.Err)
		}})
		require.NoError(t, err)
		right := r.clock
		r.clock = func() reading {
			now := right()
			now.wall = now.wall.Add(time.Duration(set.Load()))
			return now
		}
		ctx, cancel := context.WithCancel(t.Context())
		var serving sync.WaitGroup
		serving.Go(func() { assert.NoError(t, r.Serve(ctx)) })
		time.Sleep(30 * time.Second) //nolint:forbidigo // on the fake clock: between two checks of the clock
		for _, c := range []struct {
			by   time.Duration
			want string
		}{
			{0, ""},
			{time.Minute, ""},
			{-time.Minute, ""},
			{50 * time.Second, ""},
			{61 * time.Second, "runner: the clock of the machine has jumped: by 1m1s to 2000-01-01T00:22:51Z: it was set forward, or the machine was suspended; check its synchronization"},
			{-time.Hour, "runner: the clock of the machine has jumped: by -1h0m0s to 1999-12-31T23:27:51Z: it was set back; check its synchronization"},
			{0, ""},
		} {
			set.Add(int64(c.by))
			time.Sleep(5 * time.Minute) //nolint:forbidigo // on the fake clock
			mu.Lock()
			if c.want == "" {
				assert.Empty(t, troubles, c.by)
			} else if assert.Len(t, troubles, 1, c.by) {
				require.ErrorIs(t, troubles[0], ErrClock)
				assert.EqualError(t, troubles[0], c.want)
			}
			troubles = nil
			mu.Unlock()
		}
		cancel()
		serving.Wait()
		assert.EqualValues(t, 2, r.Stats().Troubles)
	})
}
