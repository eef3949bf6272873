package bus_test

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/bus"
	"github.com/reprise-go/reprise/record"
)

func Example() {
	b := bus.New()
	s := b.Subscribe(func(r record.Record) {
		fmt.Println(r.Seq, r.Name, r.Status)
	})

	// A run with state.WithPublisher(b) does this by itself.
	b.Publish(record.Record{Seq: 1, Kind: record.KindTool, Name: "get_weather", Status: record.StatusStarted})
	b.Publish(record.Record{Seq: 2, Kind: record.KindTool, Name: "get_weather", Status: record.StatusCompleted})

	b.Close() // delivers what is queued
	fmt.Println("delivered:", s.Stats().Delivered)
	// Output:
	// 1 get_weather started
	// 2 get_weather completed
	// delivered: 2
}

func ExampleBus_Records() {
	b := bus.New()
	defer b.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	records := b.Records(ctx) // from here on
	b.Publish(record.Record{Seq: 1, Name: "get_weather", Status: record.StatusStarted})
	b.Publish(record.Record{Seq: 2, Name: "get_weather", Status: record.StatusCompleted})

	for r := range records {
		fmt.Println(r.Seq, r.Status)
		if r.Status == record.StatusCompleted {
			break
		}
	}
	// Output:
	// 1 started
	// 2 completed
}

func ExampleWithGap() {
	b := bus.New()
	records := b.Records(context.Background(), bus.WithQueue(2), bus.WithGap(func(g bus.Gap) {
		fmt.Printf("%d to %d are missing\n", g.From, g.To)
	}))
	for seq := range uint64(5) {
		b.Publish(record.Record{Seq: seq + 1})
	}
	b.Close()

	for r := range records {
		fmt.Println(r.Seq)
	}
	// Output:
	// 1
	// 2
	// 3 to 5 are missing
}
