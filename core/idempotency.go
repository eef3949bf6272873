package core

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

// IdempotencyKey returns a key for the effects of the call that ctx belongs to,
// to be passed to the services that the call uses: 32 hexadecimal digits,
// computed from the run, the address without attempt numbers, and the identity of
// the input as the call was made, whatever the handler has done to it since. It is
// the same for every attempt of the call, in every attempt of the calls around it,
// before and after a crash; and it differs for every other call of any run. A fork has the keys of the oldest of its parents, unless it was given
// new ones (state.ForkOptions).
//
// A call that was compensated and is made again, after a retry of the run or in a
// fork, has a new key: for the old one a service would return the result that was
// undone.
//
// Outside a run the error is [ErrNoRun]. For an input that cannot be encoded,
// the error names the field.
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
func (c *call) inputIdentity() (record.Hash, error) {
	if r := c.recall; r != nil && (r.inputErr != nil || !r.input.IsZero()) {
		return r.input, r.inputErr
	}
	if known := c.identified.Load(); known != nil {
		return *known, nil
	}
	hash, err := c.typed.identity()
	if err == nil && !c.identified.CompareAndSwap(nil, &hash) {
		hash = *c.identified.Load() // of an attempt that was abandoned, at the same time
	}
	return hash, err
}

// isParents reports whether the effect of the call, which completes in a fork, is that of
// the same call of a parent: its handler used a key under which the parent had made it.
func (c *call) isParents() bool { return c.keyed.Load() && c.mayBeParents() }

// mayBeParents reports whether a parent of the fork has made the same call, and did not
// undo it.
func (c *call) mayBeParents() bool {
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
func (c *call) timesUndone() (parts []string) {
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
