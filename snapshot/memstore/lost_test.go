package memstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/memstore"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// A badMemory is a backend whose methods fail before or after they have done their work.
type badMemory struct {
	storekit.Backend
	next func() storetest.Fault
}

func on[T any](b *badMemory, do func() (T, error)) (T, error) {
	var none T
	fault := b.next()
	if fault == storetest.NotDone {
		return none, fmt.Errorf("%w: not sent", snapshot.ErrUnavailable)
	}
	result, err := do()
	if fault == storetest.AnswerLost {
		return none, fmt.Errorf("%w: no answer", snapshot.ErrUnavailable)
	}
	return result, err
}

func (b *badMemory) Swap(ctx context.Context, before, after storekit.Head, records storekit.Batch) (bool, error) {
	return on(b, func() (bool, error) { return b.Backend.Swap(ctx, before, after, records) })
}

func (b *badMemory) Append(ctx context.Context, batch storekit.Batch) (bool, error) {
	return on(b, func() (bool, error) { return b.Backend.Append(ctx, batch) })
}

func (b *badMemory) Post(ctx context.Context, runID, id string, data []byte) (bool, error) {
	return on(b, func() (bool, error) { return b.Backend.Post(ctx, runID, id, data) })
}

func (b *badMemory) Remove(ctx context.Context, runID string, ids []string) error {
	_, err := on(b, func() (struct{}, error) { return struct{}{}, b.Backend.Remove(ctx, runID, ids) })
	return err
}

// TestNoLostAnswerIsNoticed: with records that are appended at once, and in the background.
func TestNoLostAnswerIsNoticed(t *testing.T) {
	for name, poll := range map[string]time.Duration{"at once": 0, "in the background": time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			storetest.RunLostAnswers(t, func(_ *testing.T, next func() storetest.Fault) snapshot.Store {
				return memstore.NewOn(func(b storekit.Backend) storekit.Backend { return &badMemory{b, next} }, poll)
			})
		})
	}
}
