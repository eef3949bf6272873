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

// A Storage keeps bytes by key: 64 hexadecimal digits. [Memory] and [Dir] are
// storages. It is for many goroutines.
type Storage interface {
	// Get returns what was put under the key, and false for nothing, or for what
	// is out of date.
	Get(ctx context.Context, key string) (value []byte, ok bool, err error)

	// Put keeps the value under the key, in the place of any other, until then;
	// the zero Time is for ever. It must not keep the slice.
	Put(ctx context.Context, key string, value []byte, until time.Time) error

	// Delete drops what is kept under the key, if anything.
	Delete(ctx context.Context, key string) error
}

// Options configure a [Cache].
type Options struct {
	// OnError is called with what goes wrong with the storage, for which there is
	// then nothing kept. Defaults to a warning of slog.Default.
	OnError func(error)
}

// Cache keeps outputs of calls for later calls, of the same run or another. It is
// for many goroutines. What goes wrong with its storage does not fail a call: there
// is then nothing kept for it. Make one with [New].
type Cache struct {
	storage Storage
	onError func(error)

	mu      sync.Mutex
	flights map[string]*flight // by key
}

// flight is a call that is being made.
type flight struct {
	ctx  context.Context // of the call
	over chan struct{}   // closed when it has ended
}

// New returns a cache that keeps outputs in the storage. It panics if that is
// nil.
func New(storage Storage, o Options) *Cache {
	if storage == nil {
		panic("cache: New needs a storage, such as NewMemory(64<<20)")
	}
	if o.OnError == nil {
		o.OnError = func(err error) { slog.Default().Warn("cache: what is kept cannot be used", "error", err) }
	}
	return &Cache{storage: storage, onError: o.OnError, flights: make(map[string]*flight)}
}

// Interceptor returns what answers calls with the outputs of earlier ones that
// completed at most ttl ago; 0 stands for ever. Calls are the same if the kind and
// the name of the actor, the version and the input are the same, see
// [core.CallInfo.InputHash]. Change the version when the actor does something else.
// It panics if ttl is below 0.
//
// If several calls are the same, one is made and the others wait for it until
// their context ends; a call that is made inside does not wait.
//
// A hit is a completed call with Detail.Cached set in its record. If the
// postconditions do not hold, or the output does not fit the type, it is dropped
// and the handler runs. A hit is not compensated, emits no deltas and uses nothing.
func (c *Cache) Interceptor(version string, ttl time.Duration) core.Interceptor {
	if ttl < 0 {
		panic(fmt.Sprintf("cache: a time to live of %v; want more than 0, or 0 for ever", ttl))
	}
	return core.Interceptor{Attempt: func(ctx context.Context, call *core.CallInfo, next func(context.Context) error) error {
		key, err := outputKey(call, version)
		if err != nil {
			return err
		}
		encoded, hit, err := c.do(ctx, key, ttl, func(ctx context.Context) ([]byte, error) {
			if err := next(ctx); err != nil {
				return nil, err
			}
			return call.Output()
		})
		if err != nil || !hit || call.Answer(encoded) == nil {
			return err
		}
		c.forget(ctx, key)
		return next(ctx)
	}}
}

// outputKey returns the key of the output: 64 hexadecimal digits.
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

// do returns the value under the key. If there is none, it calls produce and keeps
// the result, unless produce fails or its context has ended. The error is that of
// produce, or of ctx.
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
			return c.fly(ctx, own, key, ttl, produce)
		}
		select {
		case <-other.over:
		case <-other.ctx.Done(): // it was left behind: somebody else has to make the call
		case <-ctx.Done():
			return nil, false, context.Cause(ctx)
		}
	}
}

// insideKey is the context key of what is made for a cache.
type insideKey struct{ cache *Cache }

// begin returns the flight of the caller, or the one of another that is under
// way.
func (c *Cache) begin(ctx context.Context, key string) (own, other *flight) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.flights[key]; other != nil && other.ctx.Err() == nil {
		return nil, other
	}
	own = &flight{ctx, make(chan struct{})}
	c.flights[key] = own
	return own, nil
}

// fly makes the call, while others that want the same wait.
func (c *Cache) fly(ctx context.Context, own *flight, key string, ttl time.Duration, produce func(context.Context) ([]byte, error)) ([]byte, bool, error) {
	defer func() { // also if produce panics
		c.mu.Lock()
		if c.flights[key] == own {
			delete(c.flights, key)
		}
		c.mu.Unlock()
		close(own.over)
	}()
	if encoded, ok := c.get(ctx, key); ok { // another flight has just ended
		return encoded, true, nil
	}
	return c.produce(context.WithValue(ctx, insideKey{c}, true), key, ttl, produce)
}

func (c *Cache) produce(ctx context.Context, key string, ttl time.Duration, produce func(context.Context) ([]byte, error)) ([]byte, bool, error) {
	encoded, err := produce(ctx)
	if err != nil || ctx.Err() != nil {
		return encoded, false, err
	}
	var until time.Time
	if ttl > 0 {
		until = time.Now().Add(ttl)
	}
	if err := c.storage.Put(ctx, key, encoded, until); err != nil {
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

func (c *Cache) forget(ctx context.Context, key string) {
	if err := c.storage.Delete(ctx, key); err != nil {
		c.onError(err)
	}
}
