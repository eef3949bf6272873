package streamer

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/reprise-go/reprise/core"
)

// run is what the handler keeps of one run: its newest events, and how it
// stands.
type run struct {
	id      string
	clients atomic.Int64 // that watch it: it is not forgotten meanwhile

	// fallback names the epoch of events from before the first opening that the
	// handler was told of; empty where a source knows its name.
	fallback string

	mu    sync.Mutex // guards what follows; held while the tape is written
	tape  *tape
	view  view
	epoch string // of the newest event; empty while that is not known
	tried uint64 // the source was read for the view when it was to have this number
}

// publish takes in a record and puts its frame on the tape of the run and on
// that of all runs.
func (r *run) publish(f *frame, rec *core.Record, all *tape, allEpoch string) (due, allDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if opens(rec) {
		r.epoch = epochName(rec.Time)
	} else if r.epoch == "" {
		r.epoch = r.fallback
	}
	if f.seq > 0 && f.seq <= r.view.LastSeq && !opens(rec) {
		return false, false // it was published before
	}
	if f.seq > 0 && f.seq <= r.view.LastSeq {
		r.view = newView(r.id) // a crash has taken records that it has counted
	}
	r.view.take(rec)
	return r.tape.append(f, cursor{r.epoch, f.seq}), all.number(f, allEpoch)
}

// begin names the epoch that the oldest events belong to, which began before
// the handler was told of the run.
func (r *run) begin(epoch string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.epoch == "" {
		r.epoch = epoch
	}
	r.tape.nameEpoch(epoch)
}

// nameEpoch names that of the events whose epoch was not known.
func (t *tape) nameEpoch(epoch string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := t.first; p < t.next; p++ {
		e := &t.entries[p%uint64(t.limit)]
		if e.id.epoch != "" {
			return
		}
		e.id.epoch = epoch
	}
}

// state is how a run stands, and what it has cost, as /api sends it.
func (r *run) state() RunState {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view.state()
}

// complete reads the records from before the handler was told of the run, and
// those up to the number that it was not told of, if a source has them.
func (r *run) complete(ctx context.Context, source Source, upTo uint64) error {
	for source != nil && r.wants(upTo) {
		fresh := newView(r.id)
		for rec, err := range source.Records(ctx, r.id, 0) {
			if err != nil {
				return err
			}
			fresh.take(&rec)
		}
		if r.replaceView(fresh) {
			return nil
		}
	}
	return nil
}

// wants reports whether the view is to be read from the source, which is tried
// once for each state of the run.
func (r *run) wants(upTo uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	upTo = max(upTo, r.view.LastSeq, 1)
	if r.view.whole() && r.view.LastSeq >= upTo || r.tried >= upTo {
		return false
	}
	r.tried = upTo
	return true
}

func (r *run) replaceView(fresh view) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if fresh.LastSeq < r.view.LastSeq {
		return false
	}
	r.view = fresh
	return true
}

// runs are the runs in memory.
type runs struct {
	mu   sync.Mutex
	byID map[string]*run

	limit    int    // of runs
	events   int    // of each run
	fallback string // of each run
}

// get returns the run, and begins it if it is new. Whoever watches it calls
// clients.Add(-1) in the end.
func (rs *runs) get(id string, watch bool) *run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	r := rs.byID[id]
	if r == nil {
		rs.makeRoom()
		r = &run{id: id, fallback: rs.fallback, tape: newTape(rs.events), view: newView(id)}
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

// all returns the runs, the last updated first.
func (rs *runs) all() []*run {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	all := make([]*run, 0, len(rs.byID))
	for _, r := range rs.byID {
		all = append(all, r)
	}
	return all
}

// makeRoom forgets runs that nobody watches: first those that ended, then
// those that have not been heard of for the longest time. A tenth goes at
// once, so that looking for them is rare.
func (rs *runs) makeRoom() {
	if len(rs.byID) < rs.limit {
		return
	}
	type candidate struct {
		id     string
		ended  bool
		active int64
	}
	var idle []candidate
	for id, r := range rs.byID {
		if r.clients.Load() > 0 {
			continue
		}
		r.mu.Lock()
		idle = append(idle, candidate{id, r.view.Status != statusRunning, r.view.Updated.UnixNano()})
		r.mu.Unlock()
	}
	slices.SortFunc(idle, func(a, b candidate) int {
		if a.ended != b.ended {
			if a.ended {
				return -1
			}
			return 1
		}
		return cmp.Compare(a.active, b.active)
	})
	for _, c := range idle[:min(len(idle), 1+rs.limit/10)] {
		delete(rs.byID, c.id)
	}
}
