package streamer

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
)

// runs holds the runs in memory.
type runs struct {
	mu   sync.Mutex
	byID map[string]*run

	limit  int          // maximum number of runs
	events int          // maximum number of events of each run
	memory int64        // limit for bytes
	bytes  atomic.Int64 // approximate size of the events of all runs
}

// get returns the run with the given ID. If the run is not in memory, get creates it. If watch is
// true, get adds one to the run's clients, and the caller must call clients.Add(-1) when done.
func (rs *runs) get(id string, watch bool) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[id]
	if r == nil {
		rs.makeRoom()
		r = &run{id: id, tape: newTape(rs.events, rs.memory/2), view: newView(id)}
		r.tape.total = &rs.bytes
		rs.byID[id] = r
	}
	if watch {
		r.clients.Add(1)
	}
	return r
}

func (rs *runs) find(id string) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return rs.byID[id]
}

// all returns the runs, in no particular order.
func (rs *runs) all() []*run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := make([]*run, 0, len(rs.byID))
	for _, r := range rs.byID {
		all = append(all, r)
	}
	return all
}

// makeRoom forgets runs without clients if there are too many runs. It forgets a tenth of the limit
// at a time, so that the runs rarely have to be sorted.
func (rs *runs) makeRoom() {
	if len(rs.byID) < rs.limit {
		return
	}
	most := 1 + rs.limit/10
	for _, r := range rs.evictionOrder() {
		if most == 0 || r.clients.Load() > 0 {
			return
		}
		delete(rs.byID, r.id)
		r.tape.retire()
		most--
	}
}

// shrink forgets the events of runs if they take too much memory, until a quarter of the limit is
// free. The states of the runs are kept.
func (rs *runs) shrink() {
	if rs.bytes.Load() <= rs.memory {
		return
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	for _, r := range rs.evictionOrder() {
		if rs.bytes.Load() <= rs.memory/4*3 {
			return
		}
		r.tape.clear()
	}
}

// evictionOrder returns the runs in the order in which they are forgotten. Runs that nobody watches
// come before watched ones. Within each of these groups, runs that are not running come before
// running ones, and otherwise the runs are ordered by the time of their last record, oldest first.
// rs.mu must be held.
func (rs *runs) evictionOrder() []*run {
	type candidate struct {
		run   *run
		rank  int // candidates with the lowest rank are forgotten first
		heard int64
	}
	var all []candidate
	for _, r := range rs.byID {
		c := candidate{run: r}
		if r.clients.Load() > 0 {
			c.rank = 2
		}
		r.mu.Lock()
		if r.view.Status == statusRunning {
			c.rank++
		}
		c.heard = r.view.Updated.UnixNano()
		r.mu.Unlock()
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.heard, b.heard))
	})
	sorted := make([]*run, len(all))
	for i, c := range all {
		sorted[i] = c.run
	}
	return sorted
}
