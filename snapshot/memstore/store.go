package memstore

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/reprise-go/reprise/internal/errkind"
	"github.com/reprise-go/reprise/snapshot"
	"github.com/reprise-go/reprise/snapshot/storekit"
)

// A Store is a [snapshot.Store] that keeps runs in memory. It follows the same rules as a store
// that uses files; for example, it encodes records when they are appended. It is safe for
// concurrent use. [New] returns a Store.
type Store struct {
	Artifacts
	*storekit.Store
}

var _ snapshot.Store = (*Store)(nil)

// New returns an empty store.
func New() *Store {
	return &Store{Store: storekit.New(newMemory(), storekit.Options{})}
}

// A memory is the backend of a Store.
type memory struct {
	mu      sync.Mutex
	runs    map[string]*run // by run ID
	now     uint64          // number of changes so far
	order   []*run          // in the reverse order of lists, so that a change moves few runs
	counts  map[snapshot.Status]int
	deleted []deletedRun // the latest deletions
	reset   uint64       // deletions up to this change are no longer remembered
}

func newMemory() *memory {
	return &memory{runs: make(map[string]*run), counts: make(map[snapshot.Status]int)}
}

// A run is a stored run. Its batches are never modified.
type run struct {
	head     storekit.Head
	batches  []batch
	messages map[string][]byte
	changed  uint64 // number of the run's last change
}

// A batch holds records that were appended together.
type batch struct {
	last uint64
	data []byte
}

type deletedRun struct {
	head storekit.Head
	at   uint64
}

// keptDeletions is the minimum number of deletions that are remembered for watchers.
const keptDeletions = 1000

// change marks a run as changed. The caller holds the lock.
func (m *memory) change(r *run) {
	m.now++
	r.changed = m.now
}

// current returns a run's head, with a copy of the Info. The caller holds the lock.
func (r *run) current() storekit.Head {
	h := r.head
	h.Info = h.Info.Clone()
	h.Info.Open = h.Opening != ""
	return h
}

// Find implements [storekit.Heads].
func (m *memory) Find(_ context.Context, runIDs ...string) (heads []storekit.Head, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range runIDs {
		if r := m.runs[id]; r != nil {
			heads = append(heads, r.current())
		}
	}
	return heads, nil
}

// Swap implements [storekit.Heads].
func (m *memory) Swap(_ context.Context, before, after storekit.Head, records storekit.Batch) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[cmp.Or(before.Info.RunID, after.Info.RunID)]
	switch {
	case before.UID == "" && r != nil:
		return false, nil
	case before.UID == "":
		r = &run{messages: make(map[string][]byte)}
		r.append(records)
		m.runs[after.Info.RunID] = r
	case r == nil || r.head.UID != before.UID || r.head.Version != before.Version || records.Last > 0 && records.Prev != r.last():
		return false, nil
	case after.UID == "":
		delete(m.runs, before.Info.RunID)
		m.delist(r)
		m.change(r)
		m.deleted = append(m.deleted, deletedRun{r.current(), r.changed})
		if len(m.deleted) > 2*keptDeletions {
			m.reset = m.deleted[keptDeletions-1].at
			m.deleted = slices.Clone(m.deleted[keptDeletions:])
		}
		return true, nil
	}
	m.delist(r)
	r.append(records)
	r.head = after
	r.head.Info = after.Info.Clone()
	r.head.Info.LastSeq = r.last()
	m.enlist(r)
	m.change(r)
	return true, nil
}

// enlist adds a run to the order and the counts. The caller holds the lock.
func (m *memory) enlist(r *run) {
	at, _ := m.find(r.place())
	m.order = slices.Insert(m.order, at, r)
	m.counts[r.status()]++
}

// delist removes a run from the order and the counts, before the run changes. If the run is not
// there, delist does nothing. The caller holds the lock.
func (m *memory) delist(r *run) {
	if at, ok := m.find(r.place()); ok {
		m.order = slices.Delete(m.order, at, at+1)
		m.counts[r.status()]--
	}
}

// find returns the index of a place in the order, and reports whether there is a run at that place.
// The caller holds the lock.
func (m *memory) find(p storekit.Place) (at int, ok bool) {
	return slices.BinarySearchFunc(m.order, p, func(r *run, p storekit.Place) int { return p.Compare(r.place()) })
}

// status returns the run's status as lists report it.
func (r *run) status() snapshot.Status {
	if r.head.Info.Status == snapshot.StatusRunning && r.head.Opening == "" {
		return snapshot.StatusInterrupted
	}
	return r.head.Info.Status
}

// last returns the number of the last record.
func (r *run) last() uint64 {
	if n := len(r.batches); n > 0 {
		return r.batches[n-1].last
	}
	return 0
}

func (r *run) append(b storekit.Batch) {
	if b.Last > r.last() {
		r.batches = append(r.batches, batch{b.Last, b.Data})
	}
}

// List implements [storekit.Heads].
func (m *memory) List(_ context.Context, _ snapshot.Filter, after storekit.Place, n int) ([]storekit.Head, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := len(m.order)
	if after != (storekit.Place{}) {
		last, _ = m.find(after)
	}
	heads := make([]storekit.Head, 0, min(n, last))
	for _, r := range slices.Backward(m.order[max(0, last-n):last]) {
		heads = append(heads, r.current())
	}
	return heads, nil
}

// Count implements [storekit.Heads].
func (m *memory) Count(_ context.Context, f snapshot.Filter) (map[snapshot.Status]int, error) {
	if !f.CountsAll() {
		return nil, nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := maps.Clone(m.counts)
	maps.DeleteFunc(counts, func(_ snapshot.Status, n int) bool { return n == 0 })
	return counts, nil
}

func (r *run) place() storekit.Place {
	return storekit.Place{Updated: r.head.Info.Updated, RunID: r.head.Info.RunID}
}

// Changes implements [storekit.Heads].
func (m *memory) Changes(_ context.Context, _ string, since uint64) (changes []storekit.Change, position uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case since == m.now:
		return nil, m.now, nil
	case since > 0 && since < m.reset:
		return nil, 0, errkind.New(snapshot.ErrReset, "snapshot: more than %d runs were deleted since", keptDeletions)
	}
	for _, d := range m.deleted {
		if since > 0 && d.at > since {
			changes = append(changes, storekit.Change{Head: d.head, Deleted: true})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(m.runs)) {
		if r := m.runs[id]; r.changed > since {
			changes = append(changes, storekit.Change{Head: r.current()})
		}
	}
	return changes, m.now, nil
}

// Append implements [storekit.Journals].
func (m *memory) Append(_ context.Context, b storekit.Batch) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[b.RunID]
	if r == nil || r.head.UID != b.UID || r.head.Opening != b.Opening || r.last() != b.Prev {
		return false, nil
	}
	r.append(b)
	r.head.Info.LastSeq = b.Last
	m.change(r)
	return true, nil
}

// Records implements [storekit.Journals].
func (m *memory) Records(_ context.Context, runID, uid string, after uint64) ([]storekit.Batch, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[runID]
	if r == nil || r.head.UID != uid {
		return nil, nil
	}
	first := sort.Search(len(r.batches), func(i int) bool { return r.batches[i].last > after })
	all := make([]storekit.Batch, 0, len(r.batches)-first)
	for _, b := range r.batches[first:] {
		all = append(all, storekit.Batch{Last: b.last, Data: b.data})
	}
	return all, nil
}

// Post implements [storekit.Messages].
func (m *memory) Post(_ context.Context, runID, id string, data []byte) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.runs[runID]
	switch {
	case r == nil:
		return false, storekit.NotFoundError(runID)
	case r.messages[id] != nil:
		return false, nil
	}
	r.messages[id] = data
	r.head.Version++
	m.change(r)
	return true, nil
}

// Messages implements [storekit.Messages].
func (m *memory) Messages(_ context.Context, runID string) (map[string][]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.runs[runID]; r != nil {
		return maps.Clone(r.messages), nil
	}
	return nil, storekit.NotFoundError(runID)
}

// Remove implements [storekit.Messages].
func (m *memory) Remove(_ context.Context, runID string, ids []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.runs[runID]; r != nil {
		for _, id := range ids {
			delete(r.messages, id)
		}
		r.head.Version++
		m.change(r)
	}
	return nil
}
