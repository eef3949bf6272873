package storetest

import (
	"context"
	"fmt"

	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// OnBadConnection returns a backend that uses b over a simulated bad connection, for
// [RunLostAnswers]. List, Count and Changes do not fail. Every other method calls next, and fails
// as the returned Fault specifies.
func OnBadConnection(b storekit.Backend, next func() Fault) storekit.Backend {
	return &badConnection{b, next}
}

type badConnection struct {
	storekit.Backend
	next func() Fault
}

func callOver[T any](b *badConnection, do func() (T, error)) (T, error) {
	var none T
	fault := b.next()
	if fault == NotDone {
		return none, fmt.Errorf("%w: not sent", snapshot.ErrUnavailable)
	}
	result, err := do()
	if fault == AnswerLost {
		return none, fmt.Errorf("%w: no answer", snapshot.ErrUnavailable)
	}
	return result, err
}

func (b *badConnection) Find(ctx context.Context, runIDs ...string) ([]storekit.Head, error) {
	return callOver(b, func() ([]storekit.Head, error) { return b.Backend.Find(ctx, runIDs...) })
}

func (b *badConnection) Swap(ctx context.Context, before, after storekit.Head, records storekit.Batch) (bool, error) {
	return callOver(b, func() (bool, error) { return b.Backend.Swap(ctx, before, after, records) })
}

func (b *badConnection) Append(ctx context.Context, batch storekit.Batch) (bool, error) {
	return callOver(b, func() (bool, error) { return b.Backend.Append(ctx, batch) })
}

func (b *badConnection) Records(ctx context.Context, runID, uid string, after uint64) ([]storekit.Batch, error) {
	return callOver(b, func() ([]storekit.Batch, error) { return b.Backend.Records(ctx, runID, uid, after) })
}

func (b *badConnection) Post(ctx context.Context, runID, id string, data []byte) (bool, error) {
	return callOver(b, func() (bool, error) { return b.Backend.Post(ctx, runID, id, data) })
}

func (b *badConnection) Messages(ctx context.Context, runID string) (map[string][]byte, error) {
	return callOver(b, func() (map[string][]byte, error) { return b.Backend.Messages(ctx, runID) })
}

func (b *badConnection) Remove(ctx context.Context, runID string, ids []string) error {
	_, err := callOver(b, func() (struct{}, error) { return struct{}{}, b.Backend.Remove(ctx, runID, ids) })
	return err
}
