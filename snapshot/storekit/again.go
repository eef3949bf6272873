package storekit

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/reprise-go/reprise/snapshot"
)

// swap replaces a head. If the answer to a try is lost, swap tries again. It sets after.Version and
// after.Swaps.
func (s *Store) swap(ctx context.Context, before Head, after *Head, records Batch) (bool, error) {
	token := rand.Text()[:tokenLength]
	if after.UID != "" {
		after.Version = before.Version + 1
		after.Swaps = token + before.Swaps[:min(len(before.Swaps), swapsKept*tokenLength)]
	}
	isUnknown := false
	swapped, err := Retry(ctx, func() (bool, error) {
		swapped, err := s.backend.Swap(ctx, before, *after, records)
		isUnknown = isUnknown || err != nil
		return swapped, err
	})
	if err == nil && !swapped && isUnknown {
		swapped, err = s.wasSwapped(ctx, &before, after, token)
	}
	if swapped {
		s.wake(cmp.Or(before.Info.RunID, after.Info.RunID))
	}
	return swapped, err
}

// Each swap has a token of tokenLength bytes. A head contains the token of its latest swap and the
// tokens of the swapsKept swaps before it.
const tokenLength, swapsKept = 13, 16

// wasSwapped reports whether a swap whose answer was lost took effect.
func (s *Store) wasSwapped(ctx context.Context, before, after *Head, token string) (bool, error) {
	now, err := s.find(ctx, cmp.Or(before.Info.RunID, after.Info.RunID))
	isGone := errors.Is(err, snapshot.ErrNotFound) || err == nil && now.UID != cmp.Or(before.UID, after.UID)
	switch {
	case isGone && after.UID == "":
		return true, nil // this call or a concurrent one has deleted the run
	case isGone:
		return false, nil
	case err != nil:
		return false, err
	case after.UID == "":
		return false, nil
	case strings.Contains(now.Swaps, token):
		return true, nil
	case len(now.Swaps) >= swapsKept*tokenLength && now.Version > before.Version+swapsKept:
		return false, fmt.Errorf("%w: the answer was lost, and the run has changed so often since then that nothing shows whether the change was made", snapshot.ErrUnavailable)
	}
	return false, nil
}

// tries is how many times a statement is tried if it fails with ErrUnavailable. The first pause
// between two tries is firstPause, and each further pause is twice as long as the previous one. The
// pauses take 8 seconds in total.
const (
	tries      = 14
	firstPause = time.Millisecond
)

// Retry calls f until it succeeds or fails with an error that is not snapshot.ErrUnavailable.
// It pauses between the calls, for about 8 seconds in total, and then gives up. A Store calls the
// methods of its Backend in this way, except for checks that it repeats anyway.
func Retry[T any](ctx context.Context, f func() (T, error)) (T, error) {
	for n, pause := 1, firstPause; ; n, pause = n+1, 2*pause {
		result, err := f()
		if !errors.Is(err, snapshot.ErrUnavailable) || n == tries {
			return result, err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return result, errors.Join(err, context.Cause(ctx))
		}
	}
}
