package bus_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/core"
)

var record = core.Record{
	RunID: "run-1", Time: time.Unix(0, 0).UTC(), Name: "get_weather",
	Kind: core.KindTool, Status: core.StatusStarted,
}

func BenchmarkPublish(b *testing.B) {
	policies := map[string][]bus.Option{"drop": nil, "wait": {bus.WithBlock(time.Minute)}}
	for _, policy := range []string{"drop", "wait"} {
		for _, n := range []int{0, 1, 8} {
			b.Run(fmt.Sprintf("subscribers=%d/full=%s", n, policy), func(b *testing.B) {
				events := bus.New()
				var subscriptions []*bus.Subscription
				for range n {
					var sum uint64
					subscriptions = append(subscriptions, events.Subscribe(func(r core.Record) { sum += r.Seq }, policies[policy]...))
				}
				r := record
				b.ReportAllocs()
				for b.Loop() {
					r.Seq++
					events.Publish(r)
				}
				events.Close()
				var dropped uint64
				for _, s := range subscriptions {
					dropped += s.Stats().Dropped
				}
				b.ReportMetric(float64(dropped)/float64(b.N), "drops/op")
			})
		}
	}
}
