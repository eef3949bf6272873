package bus_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/record"
)

var _ interface{ Publish(record.Record) } = (*bus.Bus)(nil)

// publish publishes the records from seq to last.
func publish(b *bus.Bus, seq, last uint64) {
	for ; seq <= last; seq++ {
		b.Publish(record.Record{Seq: seq})
	}
}

// A diary lists what one subscriber received: "1" for a record, "2-3" for a gap.
type diary struct {
	entries []string
	hold    chan struct{} // if not nil, each entry needs a token
}

func (d *diary) record(r record.Record) {
	d.entries = append(d.entries, fmt.Sprint(r.Seq))
	if d.hold != nil {
		<-d.hold
	}
}

func (d *diary) gap(g bus.Gap) {
	d.entries = append(d.entries, fmt.Sprintf("%d-%d:%d", g.From, g.To, g.Missed))
	if d.hold != nil {
		<-d.hold
	}
}

func (d *diary) subscribe(b *bus.Bus, options ...bus.Option) *bus.Subscription {
	return b.Subscribe(d.record, append(options, bus.WithGap(d.gap))...)
}

func TestSubscribersSeeWhatIsPublishedFromThenOnInOrder(t *testing.T) {
	var b bus.Bus // the zero Bus is ready to use
	publish(&b, 1, 3)
	var early, late diary
	early.subscribe(&b)
	publish(&b, 4, 5)
	late.subscribe(&b)
	publish(&b, 6, 7)
	b.Close()
	assert.Equal(t, []string{"4", "5", "6", "7"}, early.entries)
	assert.Equal(t, []string{"6", "7"}, late.entries)
}

func TestFullQueueKeepsWhatIsQueuedAndReportsTheGapBeforeTheNextRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		s := d.subscribe(b, bus.WithQueue(2))
		publish(b, 1, 1)
		synctest.Wait() // 1 is being delivered
		publish(b, 2, 6)
		assert.Equal(t, bus.Stats{Delivered: 1, Dropped: 3, Queued: 2}, s.Stats())
		d.hold <- struct{}{}
		synctest.Wait()
		publish(b, 7, 7)
		close(d.hold)
		b.Close()
		assert.Equal(t, []string{"1", "2", "3", "4-6:3", "7"}, d.entries)
		assert.Equal(t, bus.Stats{Delivered: 4, Dropped: 3}, s.Stats())
	})
}

func TestGapIsReportedOnceTheSubscriberHasCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		d.subscribe(b, bus.WithQueue(1))
		publish(b, 1, 1)
		synctest.Wait()
		publish(b, 2, 4)
		close(d.hold)
		synctest.Wait()
		assert.Equal(t, []string{"1", "2", "3-4:2"}, d.entries)
		b.Close()
	})
}

func TestGapAtTheEndIsReportedBeforeCloseReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		d.subscribe(b, bus.WithQueue(1))
		publish(b, 1, 1)
		synctest.Wait()
		publish(b, 2, 4)
		go close(d.hold)
		b.Close()
		assert.Equal(t, []string{"1", "2", "3-4:2"}, d.entries)
	})
}

func TestGapGrowsUntilARecordFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		d.subscribe(b, bus.WithQueue(1))
		step := func() { d.hold <- struct{}{}; synctest.Wait() }
		publish(b, 1, 1)
		synctest.Wait()
		publish(b, 2, 3) // 3 is dropped
		step()
		publish(b, 4, 5) // while 2 is being delivered; 5 is dropped
		step()
		require.Equal(t, []string{"1", "2", "3-3:1"}, d.entries)
		publish(b, 6, 7) // while the gap is being reported and 4 fills the queue
		close(d.hold)
		b.Close()
		assert.Equal(t, []string{"1", "2", "3-3:1", "4", "5-7:3"}, d.entries)
	})
}

func TestStuckSubscriberHarmsNeitherPublisherNorOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		release := make(chan struct{})
		stuck := b.Subscribe(func(record.Record) { <-release })
		var d diary
		d.subscribe(b)
		start := time.Now()
		for seq := range uint64(3000) {
			publish(b, seq, seq)
			synctest.Wait()
		}
		assert.Len(t, d.entries, 3000)
		assert.Zero(t, time.Since(start))
		assert.Equal(t, bus.Stats{Delivered: 1, Queued: 1024, Dropped: 3000 - 1 - 1024}, stuck.Stats())

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := b.CloseContext(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "bus: closed with 1 of 2 subscribers not done: context deadline exceeded")
		assert.EqualValues(t, 1024, stuck.Stats().Queued)
		close(release)
		b.Close()
		assert.EqualValues(t, 1, stuck.Stats().Delivered, "queued records are discarded")
	})
}

func TestPanickingSubscriberGetsFurtherRecords(t *testing.T) {
	b := bus.New()
	var d diary
	s := b.Subscribe(func(r record.Record) {
		d.record(r)
		switch r.Seq {
		case 2:
			panic("first")
		case 4:
			panic(io.ErrUnexpectedEOF)
		}
	})
	publish(b, 1, 5)
	b.Close()
	assert.Equal(t, []string{"1", "2", "3", "4", "5"}, d.entries)
	stats := s.Stats()
	assert.EqualValues(t, 2, stats.Panics)
	assert.EqualValues(t, 5, stats.Delivered)
	require.ErrorIs(t, stats.LastPanic, core.ErrPanic)
	require.ErrorIs(t, stats.LastPanic, io.ErrUnexpectedEOF)
	assert.Contains(t, string(stats.LastPanic.Stack), "bus_test.go")
}

func TestPanicOfTheGapFunctionCostsNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		gaps := 0
		s := b.Subscribe(d.record, bus.WithQueue(1), bus.WithGap(func(bus.Gap) { gaps++; panic("gap") }))
		publish(b, 1, 1)
		synctest.Wait()
		publish(b, 2, 3)
		d.hold <- struct{}{}
		synctest.Wait()
		publish(b, 4, 4)
		close(d.hold)
		b.Close()
		assert.Equal(t, []string{"1", "2", "4"}, d.entries)
		assert.Equal(t, 1, gaps)
		assert.EqualValues(t, 1, s.Stats().Panics)
	})
}

func TestSubscriberThatEndsItsGoroutineGetsFurtherRecords(t *testing.T) {
	b := bus.New()
	var d diary
	s := b.Subscribe(func(r record.Record) {
		d.record(r)
		runtime.Goexit()
	})
	publish(b, 1, 3)
	b.Close()
	assert.Equal(t, []string{"1", "2", "3"}, d.entries)
	assert.EqualValues(t, 3, s.Stats().Panics)
	assert.ErrorContains(t, s.Stats().LastPanic, "runtime.Goexit")
}

func TestCloseDeliversWhatIsQueuedAndRefusesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		s := d.subscribe(b)
		publish(b, 1, 10)
		synctest.Wait()
		done := make(chan struct{})
		go func() { b.Close(); close(done) }()
		go b.Close()
		synctest.Wait()
		publish(b, 11, 12)
		select {
		case <-done:
			t.Fatal("Close returned before everybody was done")
		default:
		}
		close(d.hold)
		<-done
		assert.Len(t, d.entries, 10)
		assert.Equal(t, bus.Stats{Delivered: 10}, s.Stats())
		b.Close()
		require.NoError(t, b.CloseContext(t.Context()))
	})
}

func TestSubscriberAfterCloseGetsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		b.Close()
		s := b.Subscribe(func(record.Record) { t.Error("delivered") })
		publish(b, 1, 2)
		s.Close()
		assert.Zero(t, s.Stats())
		for range b.Records(t.Context()) {
			t.Error("delivered")
		}
		b.Close()
	})
}

func TestClosedSubscriptionGetsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		s := d.subscribe(b)
		publish(b, 1, 5)
		synctest.Wait()
		closed := make(chan struct{})
		go func() { s.Close(); close(closed) }()
		synctest.Wait()
		select {
		case <-closed:
			t.Fatal("Close returned during a call")
		default:
		}
		publish(b, 6, 7)
		close(d.hold)
		<-closed
		s.Close()
		assert.Equal(t, []string{"1"}, d.entries)
		assert.Equal(t, bus.Stats{Delivered: 1, Queued: 4}, s.Stats())
		b.Close()
	})
}

func TestSubscriberMayHaveItsSubscriptionClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		var d diary
		var s *bus.Subscription
		published, closed := make(chan struct{}), make(chan struct{})
		s = b.Subscribe(func(r record.Record) {
			<-published
			d.record(r)
			go func() { s.Close(); close(closed) }() // on another goroutine: on this one it would wait for itself
			synctest.Wait()
		})
		publish(b, 1, 5)
		close(published)
		<-closed
		assert.Equal(t, []string{"1"}, d.entries)
		assert.Equal(t, bus.Stats{Delivered: 1, Queued: 4}, s.Stats())
		b.Close()
	})
}

func TestSubscriberMayPublishAndSubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		var outer, inner diary
		b.Subscribe(func(r record.Record) {
			outer.record(r)
			if r.Seq == 1 {
				inner.subscribe(b)
				publish(b, 2, 3)
			}
		})
		publish(b, 1, 1)
		synctest.Wait()
		b.Close()
		assert.Equal(t, []string{"1", "2", "3"}, outer.entries)
		assert.Equal(t, []string{"2", "3"}, inner.entries)
	})
}

func TestBlockWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		var d diary
		s := b.Subscribe(func(r record.Record) {
			<-time.After(time.Second)
			d.record(r)
		}, bus.WithQueue(1), bus.WithBlock(time.Minute))
		start := time.Now()
		publish(b, 1, 1)
		synctest.Wait()
		publish(b, 2, 5)
		assert.Equal(t, 3*time.Second, time.Since(start))
		b.Close()
		assert.Equal(t, []string{"1", "2", "3", "4", "5"}, d.entries)
		assert.Zero(t, s.Stats().Dropped)
	})
}

func TestBlockGivesUpOnceForEachGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		d := diary{hold: make(chan struct{})}
		s := d.subscribe(b, bus.WithQueue(1), bus.WithBlock(time.Second))
		start := time.Now()
		publish(b, 1, 1)
		synctest.Wait()
		publish(b, 2, 100)
		assert.Equal(t, time.Second, time.Since(start))
		assert.EqualValues(t, 98, s.Stats().Dropped)
		d.hold <- struct{}{}
		synctest.Wait()
		publish(b, 101, 110)
		assert.Equal(t, 2*time.Second, time.Since(start))
		close(d.hold)
		b.Close()
		assert.Equal(t, []string{"1", "2", "3-100:98", "101", "102-110:9"}, d.entries)
	})
}

func TestBlockedSubscribersAreWaitedForTogetherAndDelayNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		release := make(chan struct{})
		for range 3 {
			b.Subscribe(func(record.Record) { <-release }, bus.WithQueue(1), bus.WithBlock(time.Second))
		}
		seen := make(map[uint64]time.Duration)
		start := time.Now()
		b.Subscribe(func(r record.Record) { seen[r.Seq] = time.Since(start) })
		publish(b, 1, 1)
		synctest.Wait()
		publish(b, 2, 3)
		assert.Equal(t, time.Second, time.Since(start))
		close(release)
		b.Close()
		assert.Equal(t, map[uint64]time.Duration{1: 0, 2: 0, 3: 0}, seen)
	})
}

func TestCloseFreesABlockedPublisher(t *testing.T) {
	closes := map[string]func(*bus.Bus, *bus.Subscription){
		"subscription": func(_ *bus.Bus, s *bus.Subscription) { s.Close() },
		"bus":          func(b *bus.Bus, _ *bus.Subscription) { b.Close() },
	}
	for name, shut := range closes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := bus.New()
				d := diary{hold: make(chan struct{})}
				s := d.subscribe(b, bus.WithQueue(1), bus.WithBlock(time.Hour))
				publish(b, 1, 1)
				synctest.Wait()
				start := time.Now()
				published := make(chan struct{})
				go func() { publish(b, 2, 4); close(published) }()
				synctest.Wait()
				go shut(b, s)
				<-published
				assert.Zero(t, time.Since(start))
				close(d.hold)
				b.Close()
				if name == "bus" {
					assert.Equal(t, []string{"1", "2", "3-3:1"}, d.entries)
				} else {
					assert.Equal(t, []string{"1"}, d.entries)
				}
			})
		})
	}
}

func TestRecordsHasWhatIsPublishedSinceTheCallAndEndsWithTheBus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		publish(b, 1, 1)
		records := b.Records(t.Context())
		publish(b, 2, 4)
		var got []uint64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for r := range records {
				got = append(got, r.Seq)
			}
		}()
		synctest.Wait()
		assert.Equal(t, []uint64{2, 3, 4}, got)
		publish(b, 5, 6)
		b.Close()
		<-done
		assert.Equal(t, []uint64{2, 3, 4, 5, 6}, got)
		for range records {
			t.Error("a second loop got a record")
		}
	})
}

func TestRecordsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := bus.New()
		ctx, cancel := context.WithCancel(t.Context())
		records := b.Records(ctx)
		publish(b, 1, 3)
		n := 0
		for range records {
			n++
			cancel() // with two queued
		}
		assert.Equal(t, 1, n)

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		for range b.Records(ctx) {
			t.Error("a record was delivered")
		}
		assert.Equal(t, time.Second, time.Since(start))
		b.Close()
	})
}

func TestRecordsReportsGapsInOrderOnTheGoroutineOfTheLoop(t *testing.T) {
	b := bus.New()
	var d diary
	records := b.Records(t.Context(), bus.WithQueue(2), bus.WithGap(d.gap))
	publish(b, 1, 5)
	for r := range records {
		d.record(r)
		if r.Seq == 2 {
			publish(b, 6, 6)
		}
		if r.Seq == 6 {
			break
		}
	}
	assert.Equal(t, []string{"1", "2", "3-5:3", "6"}, d.entries)
}

func TestLoopMayCloseTheBus(t *testing.T) {
	b := bus.New()
	records := b.Records(t.Context())
	publish(b, 1, 3)
	n := 0
	for range records {
		n++
		b.Close()
	}
	assert.Equal(t, 3, n)
}

func TestPanicInALoopEndsItsSubscription(t *testing.T) {
	b := bus.New()
	records := b.Records(t.Context())
	publish(b, 1, 3)
	boom := errors.New("boom")
	require.PanicsWithValue(t, boom, func() {
		for range records {
			panic(boom)
		}
	})
	for range records {
		t.Error("delivered")
	}
}

func TestPublishAllocatesNothing(t *testing.T) {
	b := bus.New()
	r := record.Record{RunID: "run", Name: "get_weather"}
	assert.Zero(t, testing.AllocsPerRun(1000, func() { b.Publish(r) }))
	s := b.Subscribe(func(record.Record) {}, bus.WithQueue(64))
	for s.Stats().Dropped < 1000 { // until both halves of the queue have been full
		b.Publish(r)
	}
	assert.Zero(t, testing.AllocsPerRun(10_000, func() { b.Publish(r) }))
	b.Close()
}

func TestMisuseIsAPanicThatSaysWhatIsAllowed(t *testing.T) {
	for want, misuse := range map[string]func(){
		"bus: WithQueue(0): want 1 or more":     func() { bus.WithQueue(0) },
		"bus: WithBlock(-1s): want more than 0": func() { bus.WithBlock(-time.Second) },
		"bus: Subscribe(nil): want a function":  func() { bus.New().Subscribe(nil) },
	} {
		assert.PanicsWithValue(t, want, misuse)
	}
}
