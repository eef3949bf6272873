package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/record"
)

// WithBlock makes the figures comparable, because every record is delivered to every subscriber.
func BenchmarkPublish(b *testing.B) {
	for _, n := range []int{0, 1, 8} {
		b.Run(fmt.Sprintf("subscribers=%d", n), func(b *testing.B) {
			events := bus.New()
			subscriptions := make([]*bus.Subscription, n)
			for i := range subscriptions {
				subscriptions[i] = events.Subscribe(func(record.Record) {}, bus.WithBlock(time.Minute))
			}
			r := record.Record{RunID: "run", Time: time.Now().UTC(), Name: "get_weather", Kind: record.KindTool}
			b.ReportAllocs()
			for b.Loop() {
				r.Seq++
				events.Publish(r)
			}
			events.Close()
			for _, s := range subscriptions {
				if stats := s.Stats(); stats.Delivered != r.Seq {
					b.Fatalf("published %d, got %+v", r.Seq, stats)
				}
			}
		})
	}
}

// BenchmarkChannel is the baseline for BenchmarkPublish/subscribers=1: it uses a channel of the
// same size, which reports no gaps and counts nothing.
func BenchmarkChannel(b *testing.B) {
	records, done := make(chan record.Record, 1024), make(chan struct{})
	go func() {
		defer close(done)
		for range records {
		}
	}()
	r := record.Record{RunID: "run", Time: time.Now().UTC(), Name: "get_weather", Kind: record.KindTool}
	b.ReportAllocs()
	for b.Loop() {
		r.Seq++
		records <- r
	}
	close(records)
	<-done
}

// BenchmarkPublishToFull publishes to a subscriber that is stuck.
func BenchmarkPublishToFull(b *testing.B) {
	events := bus.New()
	release := make(chan struct{})
	events.Subscribe(func(record.Record) { <-release })
	b.ReportAllocs()
	for b.Loop() {
		events.Publish(record.Record{RunID: "run"})
	}
	close(release)
	events.Close()
}

func BenchmarkRecords(b *testing.B) {
	events := bus.New()
	records := events.Records(b.Context(), bus.WithBlock(time.Minute))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range records {
		}
	}()
	r := record.Record{RunID: "run"}
	b.ReportAllocs()
	for b.Loop() {
		r.Seq++
		events.Publish(r)
	}
	events.Close()
	<-done
}
