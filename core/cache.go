package core

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"reflect"
	"time"

	"github.com/reprise-go/reprise/internal/codec"
	"github.com/reprise-go/reprise/record"
)

// A Cache keeps outputs of calls for later calls, by key. Package cache has
// some. It is safe for many goroutines, and is shared by many runs. What goes
// wrong with a cache does not fail a call: it then has no value for the call.
type Cache interface {
	// Do returns the value under the key. If there is none, it calls produce
	// and keeps the result for the time ttl, 0 for ever, unless produce fails
	// or its context has ended. If several callers want the same key at once,
	// one calls produce and the others wait for it until ctx ends; a call that
	// is made inside produce does not wait. The error is that of produce, or of
	// ctx.
	Do(ctx context.Context, key string, ttl time.Duration, produce func(context.Context) ([]byte, error)) (encoded []byte, hit bool, err error)

	// Forget drops the value under the key.
	Forget(ctx context.Context, key string)
}

// Caching answers calls of an actor with the outputs of earlier ones. Calls are
// the same if the kind and the name of the actor, the Version and the input are
// the same. The input is compared by the function of [Definition.Identify], if
// there is one, and otherwise as a whole. (The method of an [Identifier] is not
// used, since it leaves out parts that an answer may depend on.)
//
// A hit is a completed call with Detail.Cached set in its record. Its
// postconditions are checked. If they do not hold, or the output does not fit
// the type, the value is dropped and the handler runs. A hit is not
// compensated, emits no deltas and uses nothing. Only outputs of completed
// calls are kept. Recalled calls do not ask the cache, nor do runs that are
// replayed or validated.
type Caching struct {
	Cache   Cache
	Version string        // to change when the actor does something else
	TTL     time.Duration // how long an output counts; 0 for ever
}

func (c *Caching) check(spec *Spec) error {
	switch {
	case c == nil:
		return nil
	case c.Cache == nil:
		return fmt.Errorf("core: the cache of %q is nil", spec.Name)
	case c.TTL < 0:
		return fmt.Errorf("core: Caching.TTL of %q is %v; want more than 0, or 0 for ever", spec.Name, c.TTL)
	case spec.NoStore:
		return fmt.Errorf("core: %q is NoStore, so that its output is not kept, and it has a cache; use one or the other", spec.Name)
	}
	return nil
}

// throughCache takes the output from the cache or from the handler.
func (t *typedCall[In, Out]) throughCache(ctx context.Context, out *Out) (r result) {
	r.stage = record.StageHandler
	defer r.recoverPanic() // of the cache
	caching := t.spec.Cache
	key, err := t.cacheKey()
	if err != nil {
		return result{err: err, stage: record.StageEntry}
	}
	made := false
	encoded, _, err := caching.Cache.Do(ctx, key, caching.TTL, func(ctx context.Context) ([]byte, error) {
		made = true
		if r = t.make(ctx, out); r.err != nil {
			return nil, r.err
		}
		encoded, err := record.Encode(*out)
		if err != nil {
			r = result{err: &encodeError{"output", t.spec.Name, err}, stage: record.StageEncode}
		}
		return encoded, r.err
	})
	switch {
	case made:
		return r
	case err != nil: // the wait for another call ended
		return result{err: err, stage: record.StageHandler}
	}
	var zero Out
	if *out = zero; record.Decode(encoded, out) == nil && isWhole(encoded, out) && t.ensure(ctx, out).err == nil {
		return result{stage: record.StageHandler, cached: true}
	}
	caching.Cache.Forget(ctx, key)
	*out = zero
	return t.make(ctx, out)
}

// isWhole reports whether encoded has all of out. A cache may have outputs from
// before some values were kept as JSON, which came back empty.
func isWhole[Out any](encoded []byte, out *Out) bool {
	if !codec.WantsJSON(reflect.TypeFor[Out]()) {
		return true
	}
	again, err := codec.Encode(*out)
	if err != nil {
		return false
	}
	was, err := record.HashOfEncoded(bytes.Clone(encoded))
	if err != nil {
		return false
	}
	is, err := record.HashOfEncoded(again)
	return err == nil && was == is
}

// cacheKey returns the key of the output: 64 hexadecimal digits.
func (t *typedCall[In, Out]) cacheKey() (string, error) {
	what := any(t.in)
	if t.definition.identity != nil {
		what = t.definition.identity(t.in)
	}
	encoded, err := t.identityEncoder()(what)
	if err != nil {
		return "", &encodeError{"input", t.spec.Name, err}
	}
	hash, err := record.HashOfEncoded(encoded)
	if err != nil {
		return "", &encodeError{"input", t.spec.Name, err}
	}
	h := sha256.New()
	for _, part := range []string{t.spec.Kind.String(), t.spec.Name, t.spec.Cache.Version} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(hash[:])
	return hex.EncodeToString(h.Sum(nil)), nil
}
