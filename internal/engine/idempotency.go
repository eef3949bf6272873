package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/reprise-go/reprise/record"
)

// IdempotencyKey is core.IdempotencyKey.
func IdempotencyKey(ctx context.Context) (string, error) {
	s := inRun(ctx)
	if s == nil {
		return "", ErrNoRun
	}
	if s.call == nil {
		return "", fmt.Errorf("core: an idempotency key belongs to a call; this context is that of the run itself")
	}
	place := s.call.address
	for s.call.spec.Kind.IsParallel() {
		if s = s.call.parent; s.call == nil {
			break // branches of a group at the root have no input; their addresses differ
		}
	}
	s.call.keyed.Store(true)
	undone := s.call.timesUndone()
	var hash record.Hash
	if s.call != nil {
		var err error
		if hash, err = s.call.inputIdentity(); err != nil {
			return "", err
		}
	}
	h := sha256.New()
	settings := s.root.settings
	for _, part := range append([]string{cmp.Or(settings.KeysOf, settings.RunID), place.WithoutAttempts()}, undone...) {
		// Lengths keep one part from running into the next.
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(hash[:])
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// inputIdentity returns the hash of the identity of the input. In a run that keeps
// records, it was computed when the call was made. For a compensation, and in any other
// run, it is computed when it is first asked for.
func (c *Call) inputIdentity() (record.Hash, error) {
	if r := c.recall; r != nil && (r.inputErr != nil || !r.input.IsZero()) {
		return r.input, r.inputErr
	}
	if known := c.identified.Load(); known != nil {
		return *known, nil
	}
	hash, err := c.typed.Identity()
	if err == nil && !c.identified.CompareAndSwap(nil, &hash) {
		hash = *c.identified.Load() // of an attempt that was abandoned, at the same time
	}
	return hash, err
}

// isParents reports whether the effect of the call, which completes in a fork, is that of
// the same call of a parent: its handler used a key under which the parent had made it.
func (c *Call) isParents() bool { return c.keyed.Load() && c.mayBeParents() }

// mayBeParents reports whether a parent of the fork has made the same call, and did not
// undo it.
func (c *Call) mayBeParents() bool {
	made := c.root.settings.Made[c.address.WithoutAttempts()]
	if len(made) == 0 {
		return false
	}
	input, err := c.inputIdentity()
	return err == nil && slices.Contains(made, input)
}

// timesUndone returns which calls were compensated of the call and those around it, and
// how often, as parts of a key. A compensation has the number of the completion that it
// is for, so only what the parents of a fork undid makes its key another one.
func (c *Call) timesUndone() (parts []string) {
	settings := c.root.settings
	if len(settings.Undone) == 0 {
		return nil
	}
	for times := settings.Undone; c != nil; c = c.parent.call {
		place := c.address.WithoutAttempts()
		if n := times[place]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s undone %d", place, n))
		}
		if c.spec.Kind == record.KindCompensation {
			times = settings.UndoneByParents
		}
	}
	return parts
}
