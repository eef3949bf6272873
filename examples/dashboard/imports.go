package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/reprise-go/reprise/actors"
	"github.com/reprise-go/reprise/core"
	"github.com/reprise-go/reprise/decorators"
)

// A Batch is a range of catalog items.
type Batch struct {
	First int `json:"first"`
	Size  int `json:"size"`
}

// An Item is a catalog item.
type Item struct {
	SKU int `json:"sku"`
}

// importJobs returns a function that makes import jobs. These jobs make many calls in parallel, so
// a rate limit affects them most.
func importJobs(w *world) func() job {
	agent := importAgent(w)
	first := 1000
	return func() job {
		b := Batch{First: first, Size: 8 + int(w.roll()*16)}
		first += b.Size
		return job{"import", fmt.Sprintf("Catalog items %d to %d", b.First, b.First+b.Size-1), func(ctx context.Context) error {
			_, err := agent.Call(ctx, b)
			return err
		}}
	}
}

func importAgent(w *world) actors.Agent[Batch, int] {
	describe := decorators.Tool("describe_item", "Lets a model describe an item.", func(ctx context.Context, i Item) (string, error) {
		if err := w.askModel(ctx); err != nil {
			return "", err
		}
		return fmt.Sprintf("item %d, described", i.SKU), nil
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 8, InitialDelay: 2 * time.Second, MaxDelay: 30 * time.Second}))
	save := decorators.Tool("save_items", "Saves the descriptions.", func(ctx context.Context, b Batch) (int, error) {
		if w.roll() < 0.1 {
			return 0, core.Permanent(errors.New("catalog: schema version 12 is not supported"))
		}
		return b.Size, w.askService(ctx, errors.New("catalog: deadlock detected"))
	}, actors.WithRetry(core.RetryConfig{MaxAttempts: 3, RetryOn: []core.Matcher{core.MatchAny()}}), actors.WithAttemptTimeout(3*time.Second))

	return decorators.Agent("importer", "Imports a batch.", func(ctx context.Context, b Batch) (int, error) {
		items := make([]Item, b.Size)
		for i := range items {
			items[i].SKU = b.First + i
		}
		if _, err := actors.Map(ctx, actors.Group{Name: "items", Workers: 8}, describe, items); err != nil {
			return 0, err
		}
		return save.Call(ctx, b)
	})
}
