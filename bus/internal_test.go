package bus

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/core"
)

func TestGoroutinesHaveDifferentNumbers(t *testing.T) {
	here := goroutineID()
	require.NotZero(t, here)
	require.Equal(t, here, goroutineID())
	there := make(chan uint64)
	go func() { there <- goroutineID() }()
	require.NotEqual(t, here, <-there)
	synctest.Test(t, func(t *testing.T) { require.NotZero(t, goroutineID()) })
}

func TestSequenceNobodyRangesOverIsForgottenOnceItsContextEnded(t *testing.T) {
	b := New()
	ctx, cancel := context.WithCancel(t.Context())
	records := b.Records(ctx, WithQueue(2))
	for seq := range uint64(5) {
		b.Publish(core.Record{Seq: seq})
	}
	require.NotNil(t, b.queues.Load(), "its context has not ended")
	cancel()
	b.Publish(core.Record{})
	require.Nil(t, b.queues.Load())
	for range records {
		t.Fatal("the context has ended")
	}
}

func TestEndedSubscriptionKeepsNoRecords(t *testing.T) {
	b := New()
	s := b.Subscribe(func(core.Record) {})
	for seq := range uint64(100) {
		b.Publish(core.Record{Seq: seq})
	}
	b.Close()
	require.Nil(t, s.queue.half)
	s.Close()
	require.Nil(t, s.queue.records)
	require.EqualValues(t, 100, s.Stats().Delivered)
}

func TestQueueGrowsOnlyAsItIsNeeded(t *testing.T) {
	b := New()
	release := make(chan struct{})
	s := b.Subscribe(func(core.Record) { <-release }, WithQueue(1<<40))
	for seq := range uint64(100) {
		b.Publish(core.Record{Seq: seq})
	}
	s.queue.mu.Lock()
	require.Less(t, cap(s.queue.records), 300)
	s.queue.mu.Unlock()
	close(release)
	b.Close()
}
