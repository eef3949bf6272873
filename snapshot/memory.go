package snapshot

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/reprise-go/reprise/record"
)

// A MemoryStore keeps runs in memory, by the same rules as a store in files:
// records are encoded when they are appended. It is for many goroutines; make
// it with [NewMemoryStore].
type MemoryStore struct {
	MemoryArtifacts

	mu      sync.Mutex // guards what follows, and all runs
	runs    map[string]*memoryRun
	changed chan struct{} // closed, and replaced, when anything changes
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns a store without runs.
func NewMemoryStore() *MemoryStore {
	return &MemoryStore{runs: make(map[string]*memoryRun), changed: make(chan struct{})}
}

// A memoryRun is one run. What its Run is made of is only ever replaced.
type memoryRun struct {
	run      *Run // LastSeq and Open are set when it is handed out
	freed    chan struct{}
	messages []Message
	notify   chan struct{} // of the journal that has it open
	version  uint64        // counts the changes
}

// signal wakes those who follow and watch. The lock is held.
func (s *MemoryStore) signal(r *memoryRun) {
	r.version++
	close(s.changed)
	s.changed = make(chan struct{})
}

// info is what is known of the run now. The lock is held.
func (r *memoryRun) info() Info {
	info := r.run.Info.Clone()
	info.LastSeq, info.Open = r.run.last(), r.freed != nil
	return info
}

// load is the run as it is now. The lock is held.
func (r *memoryRun) load() *Run { return &Run{Info: r.info(), encoded: slices.Clip(r.run.encoded)} }

// check is what every method does first.
func check(ctx context.Context, runID string) error {
	if err := CheckRunID(runID); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// find returns a run and takes the lock.
func (s *MemoryStore) find(ctx context.Context, runID string) (*memoryRun, error) {
	if err := check(ctx, runID); err != nil {
		return nil, err
	}
	s.mu.Lock()
	r := s.runs[runID]
	if r == nil {
		s.mu.Unlock()
		return nil, noRun(runID)
	}
	return r, nil
}

// Create implements [Store].
func (s *MemoryStore) Create(ctx context.Context, run *Run) (Info, error) {
	if err := check(ctx, run.RunID); err != nil {
		return Info{}, err
	}
	info, err := Created(run.Info)
	if err != nil {
		return Info{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.runs[run.RunID] != nil {
		return Info{}, &kindError{fmt.Sprintf("snapshot: run %s exists already", run.RunID), ErrExists}
	}
	r := &memoryRun{run: &Run{Info: info, encoded: slices.Clone(run.encoded)}}
	s.runs[run.RunID] = r
	s.signal(r)
	return r.info(), nil
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
	r := s.runs[runID]
	switch {
	case r == nil && !o.Create:
		return nil, nil, noRun(runID)
	case r == nil:
		r = &memoryRun{run: &Run{Info: Begun(runID, &o)}}
		s.runs[runID] = r
	case r.freed != nil:
		return nil, r.freed, &LockedError{RunID: runID, Owner: r.run.Owner}
	}
	restored := r.load()
	restored.Info, r.run.Info = Opened(restored.Info, &o)
	r.freed, r.notify = make(chan struct{}), make(chan struct{}, 1)
	s.signal(r)
	return &memoryJournal{store: s, run: r, restored: restored, notify: r.notify, freed: r.freed}, nil, nil
}

// Update implements [Store].
func (s *MemoryStore) Update(ctx context.Context, runID string, change func(*Info) error) (Info, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return Info{}, err
	}
	defer s.mu.Unlock()
	before := r.info()
	after := before.Clone()
	if err := change(&after); err != nil {
		return Info{}, err
	}
	if err := CheckUpdate(before, after); err != nil {
		return Info{}, err
	}
	after.Updated = Later(before.Updated)
	r.run.Info = after.Clone()
	s.signal(r)
	return after, nil
}

// Load implements [Reader].
func (s *MemoryStore) Load(ctx context.Context, runID string) (*Run, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return r.load(), nil
}

// Info implements [Reader].
func (s *MemoryStore) Info(ctx context.Context, runID string) (Info, error) {
	r, err := s.find(ctx, runID)
	if err != nil {
		return Info{}, err
	}
	defer s.mu.Unlock()
	return r.info(), nil
}

// List implements [Reader].
func (s *MemoryStore) List(ctx context.Context, f Filter) (Page, error) {
	if err := context.Cause(ctx); err != nil {
		return Page{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]Info, 0, len(s.runs))
	for _, r := range s.runs {
		all = append(all, r.info())
	}
	return f.Page(all)
}

// Delete implements [Store].
func (s *MemoryStore) Delete(ctx context.Context, runID string) error {
	r, err := s.find(ctx, runID)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if r.freed != nil {
		return &LockedError{RunID: runID, Owner: r.run.Owner}
	}
	delete(s.runs, runID)
	s.signal(r)
	return nil
}

// memoryJournal is a run of a MemoryStore that is open. The store's lock
// guards it.
type memoryJournal struct {
	store    *MemoryStore
	run      *memoryRun
	restored *Run
	notify   chan struct{}
	freed    chan struct{} // nil when it is closed
	err      error         // what broke it
}

func (j *memoryJournal) Restored() *Run { return j.restored }

func (j *memoryJournal) Notify() <-chan struct{} { return j.notify }

func (j *memoryJournal) Lost() <-chan struct{} { return nil }

// broken is what Append returns. The store's lock is held.
func (j *memoryJournal) broken() error {
	if j.err == nil && j.freed == nil {
		return ErrClosed
	}
	return j.err
}

func (j *memoryJournal) Append(records ...record.Record) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	if err := j.broken(); err != nil || len(records) == 0 {
		return err
	}
	run := j.run.run
	encoded := run.encoded
	for i := range records {
		r := &records[i]
		if want := uint64(len(encoded)) + 1; r.Seq != want {
			j.err = outOfOrder(run.RunID, r.Seq, want)
			return j.err
		}
		data, err := AppendRecord(nil, r)
		if err != nil {
			j.err = fmt.Errorf("snapshot: run %s: %w", run.RunID, err)
			return j.err
		}
		encoded = append(encoded, data)
	}
	run.encoded = encoded
	j.store.signal(j.run)
	return nil
}

func (j *memoryJournal) Sync(ctx context.Context, _ uint64) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	return j.err
}

func (j *memoryJournal) Close(_ context.Context, end End) error {
	j.store.mu.Lock()
	defer j.store.mu.Unlock()
	if j.freed == nil {
		return j.err
	}
	if j.err != nil {
		end = End{Status: StatusInterrupted, Stop: Stop{Reason: record.InterruptStore}}
	}
	j.run.run.Info = Closed(j.run.run.Info, end)
	close(j.freed)
	j.freed, j.run.freed, j.run.notify = nil, nil, nil
	j.store.signal(j.run)
	return j.err
}

// Later is now, or just after t if the clock has not moved on: a change shows.
func Later(t time.Time) time.Time {
	now := time.Now().UTC().Round(0)
	if now.After(t) {
		return now
	}
	return t.Add(1)
}
