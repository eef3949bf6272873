package cache

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Memory is a storage in memory that evicts the least recently used values. It is
// safe for concurrent use. Create one with [NewMemory].
type Memory struct {
	limit int

	mu    sync.Mutex
	bytes int
	byKey map[string]*list.Element
	used  list.List // list of *entry, most recently used first
}

type entry struct {
	key     string
	value   []byte
	expires time.Time // zero for no expiration
}

// entryBytes is the approximate number of bytes that an entry needs in addition to its value.
const entryBytes = 256

func (e *entry) size() int { return len(e.value) + entryBytes }

// NewMemory returns a storage that holds up to limit bytes, including some overhead for each value.
// If this is exceeded, the storage evicts the values that were least recently used. NewMemory
// panics if limit is not positive.
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
	k := e.Value.(*entry) //nolint:forcetypeassert // the list contains only entries
	if hasExpired(k.expires) {
		m.drop(e)
		return nil, false, nil
	}
	m.used.MoveToFront(e)
	return slices.Clone(k.value), true, nil
}

// Put implements Storage. A value that is larger than the limit is not stored.
func (m *Memory) Put(_ context.Context, key string, value []byte, expires time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.byKey[key]; e != nil {
		m.drop(e)
	}
	k := &entry{key, slices.Clone(value), expires}
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

// drop removes e. The caller holds m.mu.
func (m *Memory) drop(e *list.Element) {
	k := m.used.Remove(e).(*entry) //nolint:forcetypeassert // the list contains only entries
	delete(m.byKey, k.key)
	m.bytes -= k.size()
}
