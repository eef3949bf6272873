package budget

import (
	"context"
	"sync"
)

// A Storage keeps amounts by account. [Memory] and [Dir] are storages; one of several
// machines is a table or a hash whose fields are counted up. It is for many
// goroutines.
type Storage interface {
	// Add adds the amount, whose fields may be below zero, to the account, and
	// returns the sum of all that was added, with this. The sum is exact if several
	// callers add at once: of two, one sees the other. An account to which nothing
	// was added is zero.
	Add(ctx context.Context, account string, a Amount) (sum Amount, err error)
}

// Memory is a storage in memory. Make one with [NewMemory].
type Memory struct {
	mu       sync.Mutex
	accounts map[string]Amount
}

// NewMemory returns an empty storage.
func NewMemory() *Memory { return &Memory{accounts: make(map[string]Amount)} }

// Add implements Storage.
func (m *Memory) Add(_ context.Context, account string, a Amount) (Amount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.accounts[account].Plus(a)
	if !a.IsZero() {
		m.accounts[account] = sum
	}
	return sum, nil
}
