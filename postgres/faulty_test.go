package postgres

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
	"github.com/reprise-go/reprise/snapshot/storetest"
)

// faulty is a backend behind a bad connection.
type faulty struct {
	storekit.Backend
	next func() storetest.Fault
}

func on[T any](b *faulty, do func() (T, error)) (T, error) {
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

func (b *faulty) Find(ctx context.Context, runIDs ...string) ([]storekit.Head, error) {
	return on(b, func() ([]storekit.Head, error) { return b.Backend.Find(ctx, runIDs...) })
}

func (b *faulty) Swap(ctx context.Context, before, after storekit.Head, records storekit.Batch) (bool, error) {
	return on(b, func() (bool, error) { return b.Backend.Swap(ctx, before, after, records) })
}

func (b *faulty) Append(ctx context.Context, batch storekit.Batch) (bool, error) {
	return on(b, func() (bool, error) { return b.Backend.Append(ctx, batch) })
}

func (b *faulty) Records(ctx context.Context, runID, uid string, after uint64) ([]storekit.Batch, error) {
	return on(b, func() ([]storekit.Batch, error) { return b.Backend.Records(ctx, runID, uid, after) })
}

func (b *faulty) Post(ctx context.Context, runID, id string, data []byte) (bool, error) {
	return on(b, func() (bool, error) { return b.Backend.Post(ctx, runID, id, data) })
}

func (b *faulty) Messages(ctx context.Context, runID string) (map[string][]byte, error) {
	return on(b, func() (map[string][]byte, error) { return b.Backend.Messages(ctx, runID) })
}

func (b *faulty) Remove(ctx context.Context, runID string, ids []string) error {
	_, err := on(b, func() (struct{}, error) { return struct{}{}, b.Backend.Remove(ctx, runID, ids) })
	return err
}
