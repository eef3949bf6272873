package cache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
)

// A Storage stores values by key. A key has 64 hexadecimal digits. Implementations must
// be safe for concurrent use. [Memory] and [Dir] are storages.
type Storage interface {
	// Get returns the value stored under the key. It returns ok == false if there is no such value
	// or the value has expired. The value belongs to the caller.
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)

	// Put stores the value under the key until the given time, and replaces any earlier value. If
	// expires is the zero Time, the value never expires. Put must not retain the slice.
	Put(ctx context.Context, key string, value []byte, expires time.Time) error

	// Delete removes the value stored under the key, if any.
	Delete(ctx context.Context, key string) error
}

// Options configure a [Cache].
type Options struct {
	// OnError is called with errors from the storage. Such an error does not make a call fail: the
	// call is made as if nothing were cached. By default, the errors are logged as warnings with
	// slog.Default.
	OnError func(error)
}

// A Cache reuses the outputs of calls for later calls, in the same run or in another one. If the
// storage fails, calls are made as if nothing were cached. A Cache is safe for concurrent use.
// Create one with [New].
type Cache struct {
	storage Storage
	onError func(error)

	mu      sync.Mutex
	pending map[string]*pendingCall // the calls in progress, by key
}

// A pendingCall is a call in progress.
type pendingCall struct {
	ctx     context.Context // context of the call
	done    chan struct{}   // closed when the call has ended
	encoded []byte          // its output, once the call has ended; nil if there is none to share
}

// New returns a cache that stores outputs in storage. It panics if storage is nil.
func New(storage Storage, o Options) *Cache {
	if storage == nil {
		panic("cache: New needs a storage, such as NewMemory(64<<20)")
	}
	if o.OnError == nil {
		o.OnError = func(err error) { slog.Default().Warn("cache: storage failed", "error", err) }
	}
	return &Cache{storage: storage, onError: o.OnError, pending: make(map[string]*pendingCall)}
}

// Interceptor returns an interceptor that answers calls with cached outputs. An output is used for
// ttl after it was produced. If ttl is 0, the output never expires. Two calls are the same if they
// have the same kind, actor name, version and input; see [core.CallInfo.InputHash]. Change the
// version when the actor's behavior changes. Interceptor panics if ttl is negative.
//
// If several identical calls run concurrently, one of them is made. The others wait for it, but not
// after their own contexts have ended. A call made inside another call that uses the cache does not
// wait.
//
// On a hit, the call completes with Detail.Cached set in its record. If the cached output violates
// a postcondition or does not fit the output type, the output is dropped and the handler runs. A
// hit emits no deltas and consumes nothing.
//
// Calls that can be compensated are always made. Their outputs are not stored, since a stored
// output would outlast the call's effect. This applies to calls of an actor that has a
// compensation, and to calls that contain such calls.
func (c *Cache) Interceptor(version string, ttl time.Duration) core.Interceptor {
	if ttl < 0 {
		panic(fmt.Sprintf("cache: ttl is %v, want a positive duration, or 0 for no expiration", ttl))
	}
	return core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		if call.Compensable() {
			return next(ctx)
		}
		key, err := outputKey(call, version)
		if err != nil {
			return err
		}
		encoded, hit, err := c.do(ctx, key, ttl, func(ctx context.Context) ([]byte, error) {
			if err := next(ctx); err != nil || call.Compensable() {
				return nil, err
			}
			return call.Output()
		})
		if err != nil || !hit || call.Answer(encoded) == nil {
			return err
		}
		c.delete(ctx, key)
		return next(ctx)
	}}
}

// outputKey returns the key under which the output of a call is stored.
func outputKey(call *core.CallInfo, version string) (string, error) {
	hash, err := call.InputHash()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, part := range []string{call.Kind.String(), call.Name, version} {
		h.Write(binary.AppendUvarint(nil, uint64(len(part))))
		h.Write([]byte(part))
	}
	h.Write(hash[:])
	return hex.EncodeToString(h.Sum(nil)), nil
}

// do returns the value stored under the key. If there is none, do calls produce and stores the
// result, unless produce fails or returns nil, or the context passed to it has ended. The error
// comes from produce or from ctx.
func (c *Cache) do(ctx context.Context, key string, ttl time.Duration, produce func(context.Context) ([]byte, error)) (encoded []byte, hit bool, err error) {
	for {
		if encoded, ok := c.get(ctx, key); ok {
			return encoded, true, nil
		}
		if ctx.Value(insideKey{c}) != nil { // waiting would deadlock
			return c.produce(ctx, key, ttl, produce)
		}
		own, other := c.begin(ctx, key)
		if own != nil {
			return c.call(ctx, own, key, ttl, produce)
		}
		select {
		case <-other.done:
			if other.encoded != nil { // the storage may have failed to keep the output
				return other.encoded, true, nil
			}
		case <-other.ctx.Done(): // the call was abandoned: try again
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// insideKey is the context key that marks calls made inside a call that uses
// the cache.
type insideKey struct{ cache *Cache }

// begin registers a call in progress for the caller. If another caller has already registered one
// for the key, begin returns that call.
func (c *Cache) begin(ctx context.Context, key string) (own, other *pendingCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.pending[key]; other != nil && other.ctx.Err() == nil {
		return nil, other
	}
	own = &pendingCall{ctx: ctx, done: make(chan struct{})}
	c.pending[key] = own
	return own, nil
}

// call produces the output of the call and stores it. Other callers that need the same output wait
// in the meantime.
func (c *Cache) call(ctx context.Context, own *pendingCall, key string, ttl time.Duration, produce func(context.Context) ([]byte, error)) ([]byte, bool, error) {
	defer func() { // also if produce panics
		c.mu.Lock()
		if c.pending[key] == own {
			delete(c.pending, key)
		}
		c.mu.Unlock()
		close(own.done)
	}()
	if encoded, ok := c.get(ctx, key); ok { // another call has just ended
		return encoded, true, nil
	}
	encoded, hit, err := c.produce(context.WithValue(ctx, insideKey{c}, true), key, ttl, produce)
	if err == nil && ctx.Err() == nil {
		own.encoded = encoded
	}
	return encoded, hit, err
}

func (c *Cache) produce(ctx context.Context, key string, ttl time.Duration, produce func(context.Context) ([]byte, error)) ([]byte, bool, error) {
	encoded, err := produce(ctx)
	if err != nil || encoded == nil || ctx.Err() != nil {
		return encoded, false, err
	}
	var expires time.Time
	if ttl > 0 {
		expires = time.Now().Add(ttl)
	}
	if err := c.storage.Put(ctx, key, encoded, expires); err != nil {
		c.onError(err)
	}
	return encoded, false, nil
}

func (c *Cache) get(ctx context.Context, key string) ([]byte, bool) {
	encoded, ok, err := c.storage.Get(ctx, key)
	if err != nil && ctx.Err() == nil {
		c.onError(err)
	}
	return encoded, ok && err == nil
}

func (c *Cache) delete(ctx context.Context, key string) {
	if err := c.storage.Delete(ctx, key); err != nil {
		c.onError(err)
	}
}
