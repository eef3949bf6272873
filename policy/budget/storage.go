package budget

import (
	"context"
	"maps"
	"sync"
	"time"
)

// A Storage stores amounts by account. [Memory] and [Dir] are storages for a single machine. For
// several machines, a storage can use a database table, or a hash with atomic increments.
// Implementations must be safe for concurrent use.
type Storage interface {
	// Add adds the amount to the account and returns the new total. Fields of the amount may be
	// negative. Add is atomic: of two concurrent calls, one returns a total that includes the
	// amount of the other. An account to which nothing was added has a total of zero. Add should
	// return when ctx is done, because an attempt that has ended waits up to 10 seconds for Add.
	Add(ctx context.Context, account string, a Amount) (sum Amount, err error)
}

// A Memory is a storage in memory. It is safe for concurrent use. Create one with
// [NewMemory]. It keeps all accounts, about 150 bytes each, until they are pruned.
type Memory struct {
	mu       sync.Mutex
	accounts map[string]memoryAccount
}

type memoryAccount struct {
	sum     Amount
	updated time.Time
}

// NewMemory returns an empty storage.
func NewMemory() *Memory { return &Memory{accounts: make(map[string]memoryAccount)} }

// Prune removes the accounts to which nothing has been added since the given time. See
// [Dir.Prune] for which accounts must not be pruned.
func (m *Memory) Prune(before time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.accounts, func(_ string, a memoryAccount) bool { return a.updated.Before(before) })
}

// Add implements Storage.
func (m *Memory) Add(_ context.Context, account string, a Amount) (Amount, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.accounts[account].sum.Plus(a)
	if !a.IsZero() {
		m.accounts[account] = memoryAccount{sum, time.Now()}
	}
	return sum, nil
}
