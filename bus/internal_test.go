package bus

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/record"
)

func TestUnusedSequenceIsDroppedOnceItsContextEnded(t *testing.T) {
	b := New()
	ctx, cancel := context.WithCancel(t.Context())
	records := b.Records(ctx, WithQueue(2))
	for seq := range uint64(5) {
		b.Publish(record.Record{Seq: seq})
	}
	require.NotNil(t, b.queues.Load(), "dropped before its context ended")
	cancel()
	b.Publish(record.Record{})
	require.Nil(t, b.queues.Load())
	for range records {
		t.Fatal("got a record after the context ended")
	}
}

func TestEndedSubscriptionKeepsNoRecords(t *testing.T) {
	b := New()
	s := b.Subscribe(func(record.Record) {})
	for seq := range uint64(100) {
		b.Publish(record.Record{Seq: seq})
	}
	b.Close()
	require.Nil(t, s.queue.half)
	s.Close()
	require.Nil(t, s.queue.records)
	require.EqualValues(t, 100, s.Stats().Delivered)
}

func TestDeliveredRecordIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := New()
		b.Subscribe(func(record.Record) {})
		detail := &record.Detail{Message: "large"}
		kept := weak.Make(detail)
		b.Publish(record.Record{Detail: detail})
		synctest.Wait()
		runtime.GC()
		require.Nil(t, kept.Value())
		b.Close()
	})
}

// The consumer has taken records 1 and 2 from the queue, but has not yet begun to process record 1.
func TestGapGrowsAfterTheConsumerTookTheRecordsBeforeIt(t *testing.T) {
	var gaps []Gap
	var q queue
	q.init([]Option{WithQueue(2), WithGap(func(g Gap) { gaps = append(gaps, g) })})
	for seq := range uint64(3) {
		q.push(&record.Record{Seq: seq + 1})
	}
	require.True(t, q.refill())
	q.push(&record.Record{Seq: 4})
	q.drain()
	for r := q.next(); r != nil; r = q.next() {
		require.Empty(t, gaps)
	}
	require.Equal(t, []Gap{{From: 3, To: 4, Missed: 2}}, gaps)
}

func TestQueueGrowsOnlyAsItIsNeeded(t *testing.T) {
	b := New()
	release := make(chan struct{})
	s := b.Subscribe(func(record.Record) { <-release }, WithQueue(1<<40))
	for seq := range uint64(100) {
		b.Publish(record.Record{Seq: seq})
	}
	s.queue.mu.Lock()
	require.Less(t, cap(s.queue.records), 300)
	s.queue.mu.Unlock()
	close(release)
	b.Close()
}
