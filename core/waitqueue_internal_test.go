package core

import (
	"context"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWaitersWakeAtTheirTimeOrWithTheirContexts: many at once, with contexts
// of their own, of several, and with ends at the very instant.
func TestWaitersWakeAtTheirTimeOrWithTheirContexts(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			var all waitQueues
			var wait sync.WaitGroup
			for range 1 + rng.IntN(20) {
				ends := time.Duration(rng.IntN(40)) * time.Second
				ctx, cancel := context.WithTimeout(t.Context(), ends)
				t.Cleanup(cancel)
				for range 1 + rng.IntN(20) {
					begins, d := time.Duration(rng.IntN(30))*time.Second, time.Duration(1+rng.IntN(30))*time.Second
					wait.Go(func() {
						<-time.After(begins)
						start := time.Now()
						all.sleep(ctx, d)
						assert.Equal(t, max(0, min(d, ends-begins)), time.Since(start), "of %v from %v on, until %v", d, begins, ends)
					})
				}
			}
			wait.Wait()
			synctest.Wait() // whoever woke the last of them has left
			assert.Empty(t, all.queues)
		})
	}
}

// TestWaitersOfOneContextHaveOneTimer: and none is left when all are awake.
func TestWaitersOfOneContextHaveOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all waitQueues
		var wait sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 100 {
			wait.Go(func() { all.sleep(ctx, time.Duration(1+i%10)*time.Hour) })
		}
		synctest.Wait()
		all.mu.Lock()
		require.Len(t, all.queues, 1)
		queue := all.queues[ctx.Done()]
		all.mu.Unlock()
		<-time.After(5*time.Hour + time.Second)
		synctest.Wait()
		all.mu.Lock()
		assert.Len(t, queue.waiters, 50)
		all.mu.Unlock()
		cancel()
		synctest.Wait()
		wait.Wait()
		assert.Empty(t, all.queues)
		assert.False(t, queue.timer.Stop(), "it was stopped")
	})
}

// TestWaitersOutOfABubble is for the race detector.
func TestWaitersOutOfABubble(t *testing.T) {
	var all waitQueues
	var wait sync.WaitGroup
	for i := range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		for j := range 20 {
			wait.Go(func() {
				all.sleep(ctx, time.Duration(1+i*j)*time.Microsecond)
				if j == 10 {
					cancel()
				}
				all.sleep(ctx, time.Hour)
			})
		}
	}
	wait.Wait()
}

func TestLongestWaitIsNotOverAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all waitQueues
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		start := time.Now()
		<-time.After(time.Second)
		for range 2 {
			go all.sleep(ctx, math.MaxInt64)
		}
		all.sleep(ctx, math.MaxInt64)
		assert.Equal(t, time.Hour, time.Since(start))
	})
}
