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
	s := scopeInRun(ctx)
	if s == nil {
		return "", ErrNoRun
	}
	if s.call == nil {
		return "", fmt.Errorf("core: an idempotency key belongs to a call, but this context belongs to the run itself")
	}
	key, of, err := s.call.idempotencyKey()
	if of != nil {
		of.keyed.Store(true)
	}
	return key, err
}

// idempotencyKey returns the call's key, and the call whose input is part of the key. For a group
// or a branch, the latter is the innermost surrounding call that is neither a group nor a branch,
// or nil if there is none.
func (c *Call) idempotencyKey() (key string, of *Call, err error) {
	for of = c; of != nil && of.spec.Kind.IsParallel(); {
		of = of.parent.call
	}
	settings := c.root.settings
	parts := []string{cmp.Or(settings.KeysOf, settings.RunID), c.address.WithoutAttempts()}
	var hash record.Hash
	if of != nil {
		if hash, err = of.inputIdentity(); err != nil {
			return "", of, err
		}
		parts = append(parts, of.timesUndone()...)
	}
	h := sha256.New()
	for _, part := range parts {
		// Lengths separate the parts.
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(hash[:])
	return hex.EncodeToString(h.Sum(nil)[:16]), of, nil
}

// inputIdentity returns the hash of the input's identity. In a run that can be resumed, the hash
// was computed when the call was claimed. For a compensation, and in any other run, it is computed
// on first use.
func (c *Call) inputIdentity() (record.Hash, error) {
	if r := c.recall; r != nil && (r.inputErr != nil || !r.input.IsZero()) {
		return r.input, r.inputErr
	}
	if known := c.identity.Load(); known != nil {
		return *known, nil
	}
	hash, err := c.typed.Identity()
	if err == nil && !c.identity.CompareAndSwap(nil, &hash) {
		hash = *c.identity.Load() // an abandoned attempt may have stored it concurrently
	}
	return hash, err
}

// sharesParentEffect reports whether the call, which completes in a fork, has the same effect as
// the same call in a parent run, because its handler used a key that the parent run had used for
// that call.
func (c *Call) sharesParentEffect() bool { return c.keyed.Load() && c.mayShareParentEffect() }

// mayShareParentEffect reports whether a parent of the fork made the same call and did not undo it.
func (c *Call) mayShareParentEffect() bool {
	made := c.root.settings.Made[c.address.WithoutAttempts()]
	if len(made) == 0 {
		return false
	}
	input, err := c.inputIdentity()
	return err == nil && slices.Contains(made, input)
}

// timesUndone returns how often the call and the surrounding calls were compensated, as parts of a
// key. The address of a compensation already contains the number of the completion that it undoes,
// so the key of a compensation changes only with what the parents of a fork have undone.
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
