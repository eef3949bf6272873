package snapshot

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/core"
)

// A MemoryStore keeps runs in memory, by the same rules as a [FileStore], and
// artifacts too. Records are kept as they are: errors and details come back as
// they were, not as their encoding would have them. A MemoryStore is for many
// goroutines; make it with [NewMemoryStore].
type MemoryStore struct {
	MemoryArtifacts

	mu   sync.Mutex
	runs map[string]*memoryRun
}

// NewMemoryStore returns a store without runs.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{runs: make(map[string]*memoryRun)}
}

type memoryRun struct {
	info    Info
	records []core.Record
	freed   chan struct{} // closed when the run is; nil if it is not open
	inbox   memoryInbox
}

// Open implements [Store].
func (s *MemoryStore) Open(ctx context.Context, runID string, o OpenOptions) (Journal, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	for {
		j, freed, err := s.tryOpen(runID, o)
		if freed == nil || !o.Wait {
			return j, err
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", err, context.Cause(ctx))
		}
	}
}

// tryOpen returns what to wait for if the run is open.
func (s *MemoryStore) tryOpen(runID string, o OpenOptions) (Journal, <-chan struct{}, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	run, now := s.runs[runID], time.Now().UTC()
	switch {
	case run == nil && !o.Create:
		return nil, nil, noRun(runID)
	case run == nil:
		run = &memoryRun{info: Info{
			RunID: runID, ParentID: o.ParentID, Status: StatusRunning,
			Metadata: o.Metadata.Clone(), Created: now, Updated: now,
		}}
		s.runs[runID] = run
	case run.freed != nil:
		return nil, run.freed, &LockedError{RunID: runID}
	}
	run.info.keepRetry(o.Retry)
	run.info.Generation++
	run.freed = make(chan struct{})
	j := &memoryJournal{store: s, run: run, restored: run.load(), freed: run.freed}
	run.info.Status, run.info.Updated = StatusRunning, now
	return j, nil, nil
}

// load is what is known of the run now. The store's lock is held.
func (r *memoryRun) load() *Snapshot {
	info := r.info
	info.Metadata, info.Retry = info.Metadata.Clone(), info.Retry.Clone()
	return &Snapshot{Info: info, Records: slices.Clone(r.records)}
}

// Load implements [Store].
func (s *MemoryStore) Load(ctx context.Context, runID string) (*Snapshot, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[runID]
	if run == nil {
		return nil, noRun(runID)
	}
	return run.load(), nil
}

// List implements [Store].
func (s *MemoryStore) List(ctx context.Context, f Filter) ([]Info, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Info, 0, len(s.runs))
	for _, run := range s.runs {
		info := run.info
		info.Metadata, info.Retry = info.Metadata.Clone(), info.Retry.Clone()
		all = append(all, info)
	}
	return f.pick(all), nil
}

// Delete implements [Store].
func (s *MemoryStore) Delete(ctx context.Context, runID string) error {
	if err := check(ctx, runID); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	run := s.runs[runID]
	switch {
	case run == nil:
		return noRun(runID)
	case run.freed != nil:
		return &LockedError{RunID: runID}
	}
	delete(s.runs, runID)
	run.inbox.tell()
	return nil
}

// AfterCrash returns a store as another process would find it if this one
// ended now: no run is open, those that are here are interrupted, and the
// journals of this store do not reach the new one. It is for tests.
func (s *MemoryStore) AfterCrash() *MemoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	after := NewMemoryStore()
	for id, run := range s.runs {
		sn := run.load()
		if sn.Status == StatusRunning {
			sn.Status = StatusInterrupted
		}
		after.runs[id] = &memoryRun{
			info: sn.Info, records: sn.Records, inbox: memoryInbox{messages: slices.Clone(run.inbox.messages)},
		}
	}
	after.artifacts = s.copy()
	return after
}

// memoryJournal is a run of a MemoryStore that is open. The store's lock
// guards it.
type memoryJournal struct {
	store    *MemoryStore
	run      *memoryRun
	restored *Snapshot
	freed    chan struct{} // nil when it is closed
	err      error         // what broke it
}

func (j *memoryJournal) Restored() *Snapshot { return j.restored }

// broken is what Append returns. The store's lock is held.
func (j *memoryJournal) broken() error {
	if j.err == nil && j.freed == nil {
		return ErrClosed
	}
	return j.err
}

func (j *memoryJournal) Append(records ...core.Record) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	if err := j.broken(); err != nil || len(records) == 0 {
		return err
	}
	info := &j.run.info
	for i := range records {
		if want := info.LastSeq + 1 + uint64(i); records[i].Seq != want {
			j.err = outOfOrder(info.RunID, records[i].Seq, want)
			return j.err
		}
	}
	for i := range records {
		r := records[i]
		r.RunID = info.RunID
		j.run.records = append(j.run.records, r)
	}
	last := &records[len(records)-1]
	info.LastSeq = last.Seq
	if last.Time.After(info.Updated) {
		info.Updated = last.Time
	}
	return nil
}

func outOfOrder(runID string, seq, want uint64) error {
	return fmt.Errorf("snapshot: run %s: record %d appended where %d follows", runID, seq, want)
}

func (j *memoryJournal) Sync(uint64) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	return j.err
}

func (j *memoryJournal) Close(status Status) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	if j.freed == nil {
		return j.err
	}
	info := &j.run.info
	info.Status = StatusInterrupted // for one that broke
	if j.err == nil {
		info.Status = status
		if now := time.Now().UTC(); now.After(info.Updated) {
			info.Updated = now
		}
	}
	close(j.freed)
	j.freed, j.run.freed = nil, nil
	j.run.inbox.tell()
	return j.err
}

// MemoryArtifacts is an [ArtifactStore] in memory. The zero MemoryArtifacts is
// ready for use, by many goroutines.
type MemoryArtifacts struct {
	mu        sync.Mutex
	artifacts map[string][]byte
}

// Put implements [ArtifactStore].
func (a *MemoryArtifacts) Put(ctx context.Context, data []byte) (string, error) {
	if err := context.Cause(ctx); err != nil {
		return "", err
	}
	ref := reference(data)
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.artifacts[ref]; !ok {
		if a.artifacts == nil {
			a.artifacts = make(map[string][]byte)
		}
		a.artifacts[ref] = append([]byte{}, data...)
	}
	return ref, nil
}

// Get implements [ArtifactStore].
func (a *MemoryArtifacts) Get(ctx context.Context, ref string) ([]byte, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	data, ok := a.artifacts[ref]
	if !ok {
		return nil, noArtifact(ref)
	}
	return bytes.Clone(data), nil
}

func (a *MemoryArtifacts) copy() map[string][]byte {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.artifacts)
}
