package core

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/reprise-go/reprise/record"
)

// IdempotencyKey returns a key for the effects of the call that ctx belongs to,
// to be passed to the services that the call uses: 32 hexadecimal digits,
// computed from the run, the address without attempt numbers, and the input. It
// is the same for every attempt of the call, in every attempt of the calls
// around it, before and after a crash; and it differs for every other call of
// any run.
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
	var hash record.Hash
	if s.call != nil {
		var err error
		if hash, err = s.call.hashInput(); err != nil {
			return "", err
		}
	}
	h := sha256.New()
	for _, part := range []string{s.root.settings.RunID, place.WithoutAttempts()} {
		// Lengths keep one part from running into the next.
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(hash[:])
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}
