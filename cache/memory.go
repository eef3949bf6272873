package cache

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Memory is a storage in memory, for the life of the process. It is for many
// goroutines. Make one with [NewMemory].
type Memory struct {
	limit int

	mu    sync.Mutex
	bytes int
	byKey map[string]*list.Element
	used  list.List // of *kept, the latest first
}

type kept struct {
	key   string
	value []byte
	until time.Time // zero for ever
}

// entryBytes is about what an entry takes beside its value.
const entryBytes = 256

func (k *kept) size() int { return len(k.value) + entryBytes }

// NewMemory returns a storage that keeps up to so many bytes: beyond that, what
// was used longest ago is dropped. It panics if limit is not above 0.
func NewMemory(limit int) *Memory {
	if limit <= 0 {
		panic(fmt.Sprintf("cache: NewMemory(%d): want more than 0, such as 64<<20", limit))
	}
	return &Memory{limit: limit, byKey: make(map[string]*list.Element)}
}

// Get implements Storage.
func (m *Memory) Get(_ context.Context, key string) ([]byte, bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.byKey[key]
	if e == nil {
		return nil, false, nil
	}
	k := e.Value.(*kept) //nolint:forcetypeassert // nothing else is in the list
	if !k.until.IsZero() && !time.Now().Before(k.until) {
		m.drop(e)
		return nil, false, nil
	}
	m.used.MoveToFront(e)
	return slices.Clone(k.value), true, nil
}

// Put implements Storage. A value that is larger than the limit is not kept.
func (m *Memory) Put(_ context.Context, key string, value []byte, until time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[key]; e != nil {
		m.drop(e)
	}
	k := &kept{key, slices.Clone(value), until}
	if k.size() > m.limit {
		return nil
	}
	for m.bytes+k.size() > m.limit {
		m.drop(m.used.Back())
	}
	m.byKey[key] = m.used.PushFront(k)
	m.bytes += k.size()
	return nil
}

// Delete implements Storage.
func (m *Memory) Delete(_ context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[key]; e != nil {
		m.drop(e)
	}
	return nil
}

// drop takes e out. The lock is held.
func (m *Memory) drop(e *list.Element) {
	k := m.used.Remove(e).(*kept) //nolint:forcetypeassert // nothing else is in the list
	delete(m.byKey, k.key)
	m.bytes -= k.size()
}
